// Graph + plan + software profile -> Program: the passes, in order, each timed and then checked.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"
#include "engine/passes/pass_log.h"
#include "engine/passes/training_graph.h"
#include "engine/passes/transfer_routes.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/program/shared_segments.h"

namespace trainyard {

/// All that a Program depends on beside the graph and the software profile, which the model and the
/// framework of the plan decide. Plans with equal inputs have the same Program, whatever their
/// clusters.
struct ProgramInputs {
  Plan plan;
  PipelineLinks links;  // with parallel.d2d_buffer: all that a Program knows of its cluster
  friend bool operator==(const ProgramInputs&, const ProgramInputs&) = default;
};

/// Compiles one training step. `model`: the graph of in.plan.model. Nothing in it costs O(ranks x
/// ops): the Program holds one list per pipeline rank, whatever the other degrees. Infeasible: the
/// plan cannot be built, with the reason. What a pass has made that fails its check, and a Program
/// that fails verification, is a bug of ours and aborts with what is wrong.
std::variant<Program, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                          const SoftwareProfile& software, PassLog& log,
                                          const CompileOptions& options = {});

/// What a Compiler is for.
struct CompilerUse {
  /// Plans differ in what they compute again: the training graphs before that stay as well, which
  /// takes as much memory once more.
  bool recomputations = false;
  /// Programs are looked at and dropped, and are not verified as whole ones: who takes one compiles
  /// its plan again.
  bool candidates = false;
};

/// Compiles one plan after another. What a stretch of passes has made (pass_tables.h has their
/// tables) stays while all their inputs (pass.h) are those of the plan before:
///
///   training graphs   model, kernels, tensor degree, number of stages, recompute
///   segments          the same, the other degrees, ZeRO, optimizer; of data only whether it is
///                     above 1; of the schedule, with ZeRO-3, which calls follow which
///   lists of calls    everything
///
/// So of plans that differ in nodes, batch or schedule only the lists are made. Keeps one of each,
/// thus about as much memory as one compile() uses.
class Compiler {
 public:
  explicit Compiler(CompilerUse use = {});
  ~Compiler();

  /// As trainyard::compile(). The Program lives here until the next call. `log` has the passes of
  /// this call.
  std::variant<const Program*, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                                   const SoftwareProfile& software, PassLog& log,
                                                   const CompileOptions& options = {});

  /// Segments of the Program of the last call.
  const SharedSegments& segments() const;

  /// The Program of the last call; nothing else of it is kept.
  Program take();

  /// What compile() makes segments of, of the plan's largest microbatch, and nothing behind it.
  static std::variant<TrainingGraph, Infeasible> training_graph(const Graph& model,
                                                                const ProgramInputs& in,
                                                                const SoftwareProfile& software);

 private:
  struct Kept;
  CompilerUse use_;
  std::unique_ptr<Kept> kept_;
};

}  // namespace trainyard
