// The table of schedules: one row says what a schedule is called, needs and takes. Studies, solve,
// lists and checks read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

enum class StagesPerRank : std::uint8_t { kOne, kTwo, kSeveral };

struct ScheduleSize {
  int ranks = 1;
  int stages_per_rank = 1;
  int microbatches = 1;
};

struct ScheduleSettings;
using MadeSchedule = std::variant<PipelineSchedule, Infeasible>;

struct ScheduleName {
  std::string_view name;
  std::string_view short_name = {};  // what a study may write for it, too; "": nothing else
  std::string_view other_name = {};  // what peers call it; "": nothing else
  std::string_view description;
  StagesPerRank stages = StagesPerRank::kOne;
  int least_ranks = 1;
  std::string_view on_one_rank = {};  // what is the same there, where least_ranks is 2
  int least_microbatches = 1;         // and
  int least_microbatches_per_rank = 0;
  std::string_view microbatch_rule = {};  // both, in words
  bool searched = false;                  // its order depends on durations
  bool splits_backward = false;           // gradients of weights apart from those of inputs
  bool says_recompute = false;            // it says when a stage recomputes
  bool takes_microbatch_group = false;
  bool takes_memory_limit = false;
  bool takes_active_microbatches = false;
  bool takes_stage_ranks = false;  // stages may lie on any ranks
  /// Its own rules are make_schedule()'s, and every stage may recompute inside its backward.
  bool plain = false;
  /// Why it cannot serve this number of microbatches, beyond the least; "": it can.
  std::string (*obstacle)(const ScheduleSize& size) = nullptr;
  MadeSchedule (*make)(const ScheduleSize& size, const ScheduleSettings& settings) = nullptr;

  int least_microbatches_of(int ranks) const;
};
const std::vector<ScheduleName>& schedule_names();

/// The row of a schedule, by any of its names (near_names.h); nullptr: there is none.
const ScheduleName* find_schedule(std::string_view name);

/// Names of the rows for which a column holds: zb-1p and zb-2p take a memory limit.
std::vector<std::string> schedules_that(bool ScheduleName::*does);

/// Whether `name` is a schedule whose order is searched for durations.
bool is_searched_schedule(std::string_view name);

/// What a schedule may depend on beside its size; 0 and empty: its own default.
struct ScheduleSettings {
  int microbatch_group = 0;     // interleaved: default_group()
  int memory_limit = 0;         // zb-1p, zb-2p: microbatches in flight on a rank; ranks, 2 ranks
  int active_microbatches = 0;  // opportunistic: in the pipeline; ranks + 2
  Numbered<ActionDurations> of_stage;  // [stage], of those that are made for durations; 1, B 2
  double transfer = 0;
  StageRanks on;  // [stage], of those that take it; as the schedule places them
  bool steps_overlap =
      false;  // zb-1p, zb-2p: a step may begin where another ends (post-validation)
};

/// Infeasible for a name that is none, and for numbers that the schedule cannot serve. `recompute`:
/// every stage of gpipe, 1f1b and interleaved recomputes inside its backward; the others say
/// themselves.
std::variant<PipelineSchedule, Infeasible> schedule_by_name(const std::string& name, int num_ranks,
                                                            int stages_per_rank,
                                                            int num_microbatches, bool recompute,
                                                            const ScheduleSettings& settings = {});

}  // namespace trainyard
