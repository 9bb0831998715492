// What compile() is told beside the plan, and what it says of its work.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/units.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

struct Graph;
struct Sharding;
struct StagedGraph;
struct TrainingGraph;
struct ProgramDraft;

/// What a pass has made.
using PassResult = std::variant<StagedGraph*, TrainingGraph*, ProgramDraft*>;

struct CompileOptions {
  /// The full verifier behind every pass, as far as it can look at what is there, beside the pass's
  /// own check; else at the end alone.
  bool verify = false;
  /// Plans how the graph is split in place of the plan's method, from the sharding's mesh and late
  /// axes: a sharding that no plan says. For one compile() at a time.
  std::function<void(Graph& graph, Sharding& sharding)> plan_sharding = {};
  /// Called behind every pass, before its result is checked, with what it has made: to look at it,
  /// or to break it in a test of the checks.
  std::function<void(const std::string& pass, PassResult result)> behind_pass = {};
};

/// What compile() did, for `trainyard compile` and for finding slow passes.
struct PassLog {
  struct Entry {
    std::string pass;
    Seconds wall = 0;
  };
  std::vector<Entry> entries;
  std::vector<std::int64_t> first_layer;  // of each stage, and the number of layers at the end
  std::vector<std::int64_t> last_layer;   // of each stage; less than the first: it has none
  std::vector<std::string> begins_at;     // [stage]: in the midst of that layer; empty: does not
  Numbered<double> kept;                  // [stage]: share of its layers that are not recomputed
  Numbered<int>
      units;  // [stage]: layers or sublayers, of which `kept` is the share; stage-aware, group
  PipelineSchedule schedule;
};

}  // namespace trainyard
