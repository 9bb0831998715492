#include "engine/passes/compile.h"

#include <optional>
#include <utility>

#include "engine/passes/differentiate.h"
#include "engine/passes/gather_units.h"
#include "engine/passes/log_stages.h"
#include "engine/passes/lower.h"
#include "engine/passes/parameter_buckets.h"
#include "engine/passes/pass_inputs.h"
#include "engine/passes/pass_tables.h"
#include "engine/passes/pass_watch.h"
#include "engine/passes/replica_obstacles.h"
#include "engine/passes/schedule_of_plan.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/verify.h"

namespace trainyard {

struct Compiler::Kept {
  explicit Kept(CompilerUse of) : use(of) {}

  /// Training graphs in front of the passes of kTrainingPasses.
  struct Differentiated {
    InputsOf<decltype(kGraphPasses)> graph;
    DType differentiate;
    std::vector<TrainingGraph> trainings;
  };

  /// All that the training graphs depend on: inputs of both tables, and of what is between them.
  struct TrainingInputs {
    InputsOf<decltype(kGraphPasses)> graph;
    DType differentiate;
    InputsOf<decltype(kTrainingPasses)> training;
    friend bool operator==(const TrainingInputs&, const TrainingInputs&) = default;
  };
  using DraftInputs = InputsOf<decltype(kDraftPasses)>;

  CompilerUse use;
  std::optional<Differentiated> differentiated;  // of use.recomputations
  std::optional<ProgramInputs> program_inputs;   // of draft.program as it is, or of infeasible
  std::optional<Infeasible> infeasible;
  std::optional<TrainingInputs> training_inputs;
  std::vector<TrainingGraph> trainings;     // one for each size of microbatch, the largest first
  std::optional<DraftInputs> draft_inputs;  // with the trainings: of the draft, but for its lists
  ProgramDraft draft;
  SharedSegments shared;
  ProgramVerifier verifier;
  bool verified = false;  // a Program with these segments has been

  /// `graphs_alone`: the training graphs, and no segments.
  std::optional<Infeasible> make(const Graph& model, const ProgramInputs& in,
                                 const SoftwareProfile& software, PassLog& log,
                                 const CompileOptions& options, bool graphs_alone = false);
  std::optional<Infeasible> make_trainings(const Graph& model, const PassSource& source,
                                           const CompileOptions& options, PassWatch& watch);
  std::optional<Infeasible> make_segments(const Graph& model, const PassSource& source,
                                          const CompileOptions& options, PassWatch& watch);
  std::optional<Infeasible> make_lists(const PassSource& source, const PipelineSchedule& schedule,
                                       PassWatch& watch);
  void verify(PassWatch& watch);
};

std::optional<Infeasible> Compiler::Kept::make_trainings(const Graph& model,
                                                         const PassSource& source,
                                                         const CompileOptions& options,
                                                         PassWatch& watch) {
  TrainingInputs wanted{inputs_of(kGraphPasses, source), differentiate_inputs(source),
                        inputs_of(kTrainingPasses, source)};
  if (training_inputs == wanted) return std::nullopt;
  training_inputs.reset();
  draft_inputs.reset();
  trainings.clear();
  const bool kept = differentiated && differentiated->graph == wanted.graph &&
                    differentiated->differentiate == wanted.differentiate;
  std::vector<TrainingGraph> made;
  const std::size_t num_sizes = local_sizes(source.plan.training, source.plan.parallel).size();
  for (std::size_t size = 0; size < num_sizes; ++size) {
    const PassContext context{size == 0 ? model : model.smaller[size - 1], source.software,
                              trainings, options};
    TrainingGraph training;
    if (kept) {
      training = differentiated->trainings[size];
    } else {
      StagedGraph staged;
      if (auto reason = walk(kGraphPasses, wanted.graph, staged, context, watch)) return reason;
      watch.run("differentiate", training, find_training_violation, [&] {
        training = differentiate(std::move(staged), source.software, wanted.differentiate);
      });
      if (use.recomputations) made.push_back(training);
    }
    if (auto reason = walk(kTrainingPasses, wanted.training, training, context, watch))
      return reason;
    trainings.push_back(std::move(training));
  }
  if (use.recomputations && !kept)
    differentiated.emplace(wanted.graph, wanted.differentiate, std::move(made));
  training_inputs = std::move(wanted);
  return std::nullopt;
}

std::optional<Infeasible> Compiler::Kept::make_segments(const Graph& model,
                                                        const PassSource& source,
                                                        const CompileOptions& options,
                                                        PassWatch& watch) {
  DraftInputs wanted = inputs_of(kDraftPasses, source);
  if (draft_inputs == wanted) return std::nullopt;
  draft_inputs.reset();
  draft = ProgramDraft{};
  verified = false;
  const PassContext context{model, source.software, trainings, options};
  if (auto reason = walk(kDraftPasses, wanted, draft, context, watch)) return reason;
  renumber_tables(draft.program);
  ++shared.number;
  shared.sized = sized_values(draft.plan, draft.program);
  draft_inputs = std::move(wanted);
  return std::nullopt;
}

std::optional<Infeasible> Compiler::Kept::make_lists(const PassSource& source,
                                                     const PipelineSchedule& schedule,
                                                     PassWatch& watch) {
  const ParallelConfig& parallel = source.plan.parallel;
  Program& program = draft.program;
  program.mesh = mesh_of(parallel);
  place(program, parallel);
  size_buckets(draft.plan, parallel, program);
  draft.size_of = size_of_microbatches(source.plan.training);
  program.documents = documents_of(source.plan);
  // verify() follows, and looks at all that a check of drafts would.
  return watch.run("lower", draft, nullptr,
                   [&] { return lower(draft, schedule, source.software); });
}

void Compiler::Kept::verify(PassWatch& watch) {
  const auto problem = watch.time("verify", [&] {
    return verified ? verifier.find_violation_of_lists(draft.program)
                    : verifier.find_violation_of_all(draft.program);
  });
  PassWatch::require_sound("lower", problem.value_or(""));
  verified = true;
}

std::optional<Infeasible> Compiler::Kept::make(const Graph& model, const ProgramInputs& in,
                                               const SoftwareProfile& software, PassLog& log,
                                               const CompileOptions& options, bool graphs_alone) {
  const Plan& plan = in.plan;
  PassWatch watch(options, log);
  auto schedule = watch.time("schedule", [&] { return schedule_of_plan(plan); });
  if (auto reason = put(std::move(schedule), log.schedule)) return reason;
  const PassSource source = pass_source(plan, in.links, log.schedule, software);
  if (auto reason = sequence_obstacle(plan.recompute, source.forms)) return reason;
  if (auto reason = replica_obstacle(plan)) return reason;
  if (auto reason = gather_obstacle(plan, !source.pairs.empty())) return reason;
  if (auto reason = make_trainings(model, source, options, watch)) return reason;
  if (auto reason = transfer_obstacle(plan, trainings)) return reason;
  if (auto reason = document_obstacle(plan, trainings.front())) return reason;
  log_stages(trainings.front(), plan, source.kept, log);
  if (graphs_alone) return std::nullopt;

  if (auto reason = make_segments(model, source, options, watch)) return reason;
  if (auto reason = make_lists(source, log.schedule, watch)) return reason;
  if (!use.candidates) verify(watch);
  return std::nullopt;
}

Compiler::Compiler(CompilerUse use) : use_(use), kept_(std::make_unique<Kept>(use)) {}
Compiler::~Compiler() = default;

std::variant<const Program*, Infeasible> Compiler::compile(const Graph& model,
                                                           const ProgramInputs& in,
                                                           const SoftwareProfile& software,
                                                           PassLog& log,
                                                           const CompileOptions& options) {
  if (kept_->program_inputs != in) {
    kept_->program_inputs.reset();
    kept_->infeasible = kept_->make(model, in, software, log, options);
    kept_->program_inputs = in;
  }
  if (kept_->infeasible) return *kept_->infeasible;
  return &kept_->draft.program;
}

const SharedSegments& Compiler::segments() const { return kept_->shared; }

std::variant<TrainingGraph, Infeasible> Compiler::training_graph(const Graph& model,
                                                                 const ProgramInputs& in,
                                                                 const SoftwareProfile& software) {
  Kept kept({});
  PassLog log;
  if (auto reason = kept.make(model, in, software, log, {}, true)) return *std::move(reason);
  return std::move(kept.trainings.front());
}

Program Compiler::take() {
  return std::move(std::exchange(kept_, std::make_unique<Kept>(use_))->draft.program);
}

std::variant<Program, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                          const SoftwareProfile& software, PassLog& log,
                                          const CompileOptions& options) {
  Compiler compiler;
  auto compiled = compiler.compile(model, in, software, log, options);
  if (auto* reason = std::get_if<Infeasible>(&compiled)) return std::move(*reason);
  return compiler.take();
}

}  // namespace trainyard
