// Graph + plan + software profile -> Program: the passes, in order, each timed and then verified.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/units.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "engine/passes/transfer_routes.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/program/shared_segments.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// What compile() did, for `trainyard compile` and for finding slow passes.
struct PassLog {
  struct Entry {
    std::string pass;
    Seconds wall = 0;
  };
  std::vector<Entry> entries;
  std::vector<std::int64_t> first_layer;  // of each stage, and the number of layers at the end
  std::vector<double> kept;               // [stage]: share of its layers that are not recomputed
  std::vector<int>
      units;  // [stage]: layers or sublayers, of which `kept` is the share; stage-aware, group
  PipelineSchedule schedule;
};

/// All that a Program depends on beside the graph and the software profile, which the model and the
/// framework of the plan decide. Plans with equal inputs have the same Program, whatever their
/// clusters.
struct ProgramInputs {
  Plan plan;
  std::vector<PipelineLink>
      links;  // with parallel.d2d_buffer: all that a Program knows of its cluster
  friend bool operator==(const ProgramInputs&, const ProgramInputs&) = default;
};

/// Compiles one training step. `model`: the graph of in.plan.model. Nothing in it costs O(ranks x
/// ops): the Program holds one list per pipeline rank, whatever the other degrees. Infeasible: the
/// plan cannot be built, with the reason. A Program that fails verification is a bug of ours and
/// aborts with what is wrong.
std::variant<Program, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                          const SoftwareProfile& software, PassLog& log);

/// Compiles one plan after another. A pass whose inputs are those of the plan before is not run
/// again:
///
///   training graph   model, kernels, tensor degree, number of stages, recompute
///   segments         the same, the other degrees, ZeRO, optimizer; of data only whether it is
///   above 1 lists of calls   everything
///
/// So of plans that differ in nodes, batch or schedule only the lists are made. Keeps one of each,
/// thus about as much memory as one compile() uses.
class Compiler {
 public:
  Compiler();
  ~Compiler();

  /// As trainyard::compile(). The Program lives here until the next call. `log` has the passes of
  /// this call.
  std::variant<const Program*, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                                   const SoftwareProfile& software, PassLog& log);

  /// Segments of the Program of the last call.
  const SharedSegments& segments() const;

  /// The Program of the last call; nothing else of it is kept.
  Program take();

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace trainyard
