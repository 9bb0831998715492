#include "engine/passes/compile.h"

#include <optional>
#include <tuple>
#include <utility>

#include "engine/partition/stage_partition.h"
#include "engine/passes/apply_sharding.h"
#include "engine/passes/bucket_values.h"
#include "engine/passes/buffer_transfers.h"
#include "engine/passes/chunk_order.h"
#include "engine/passes/copy_moved_dims.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/fp8_products.h"
#include "engine/passes/gather_units.h"
#include "engine/passes/host_waits.h"
#include "engine/passes/instantiate.h"
#include "engine/passes/log_stages.h"
#include "engine/passes/lower.h"
#include "engine/passes/offload.h"
#include "engine/passes/pair_segments.h"
#include "engine/passes/pass.h"
#include "engine/passes/pass_inputs.h"
#include "engine/passes/pass_watch.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/plan_splits.h"
#include "engine/passes/post_validation.h"
#include "engine/passes/recompute.h"
#include "engine/passes/replica_obstacles.h"
#include "engine/passes/schedule_of_plan.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/separate_documents.h"
#include "engine/passes/split_backward.h"
#include "engine/passes/split_batch.h"
#include "engine/passes/split_transfers.h"
#include "engine/passes/step_segments.h"
#include "engine/plan/graph_source.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/verify.h"

namespace trainyard {

namespace {

bool always(const PassSource&) { return true; }
bool packs_documents(const PassSource& of) { return of.plan.documents.on(); }
bool overlaps_tensor(const PassSource& of) { return of.plan.parallel.tensor_overlap != "none"; }
WeightCasts weight_casts(const ParallelConfig& parallel) {
  if (!shards_parameters(parallel)) return WeightCasts::kOncePerStep;
  return parallel.zero.gathers_fp8 ? WeightCasts::kGathered : WeightCasts::kAtUse;
}
int num_stages(const PassSource& of) { return static_cast<int>(of.forms.size()); }

// The whole compilation: three tables of passes, and make(), which walks them.

/// The model of one device -> that of a tensor-parallel rank, in stages.
constexpr std::tuple kGraphPasses = {
    Pass{
        "kernels", always,
        [](const PassSource& of) {
          // The first two stand for the model's graph and the software profile.
          return std::tuple(graph_source(of.plan), of.plan.framework,
                            of.plan.training.flash_attention == FlashAttention::kOn);
        },
        [](StagedGraph& staged, const PassContext& with, const GraphSource&, const FrameworkConfig&,
           bool flash) { staged.graph = select_kernels(with.model, with.software, flash); },
        find_staged_violation},
    Pass{"documents", packs_documents, [](const PassSource&) { return std::tuple(); },
         [](StagedGraph& staged, const PassContext&) { separate_documents(staged.graph); },
         find_staged_violation},
    Pass{"shard", always,
         [](const PassSource& of) {
           return std::tuple(method_plan(of.plan.parallel), of.plan.sharding);
         },
         [](StagedGraph& staged, const PassContext& with, const MethodPlan& plan,
            const std::vector<GivenSharding>& given) -> std::optional<Infeasible> {
           auto planned = with.options.plan_sharding
                              ? plan_by_option(std::move(staged.graph), plan, with.options)
                              : plan_by_method(std::move(staged.graph), plan, given);
           if (auto* reason = std::get_if<Infeasible>(&planned)) return std::move(*reason);
           auto& [graph, sharding] = std::get<PlannedGraph>(planned);
           auto problem = put(apply_sharding(std::move(graph), std::move(sharding)), staged.graph);
           if (problem && problem->key.empty()) {
             const auto* map = plan.told<MapPlan>();
             if (!given.empty())
               problem->key = "sharding";
             else if (map != nullptr && !map->ops.empty())
               problem->key = kMapOpsKey;
           }
           return problem;
         },
         find_staged_violation},
    Pass{"chunks", overlaps_tensor,
         [](const PassSource& of) {
           return std::tuple(parse_tensor_overlap(of.plan.parallel.tensor_overlap), num_stages(of),
                             of.plan.partition, local_sizes(of.plan.training, of.plan.parallel));
         },
         [](StagedGraph& staged, const PassContext&, const TensorOverlap& overlap, int num_stages,
            const PartitionConfig& partition, const std::vector<std::int64_t>& sizes) {
           return put(split_batch(staged.graph, overlap, num_stages, partition, sizes),
                      staged.graph);
         },
         find_staged_violation},
    Pass{"partition", always,
         [](const PassSource& of) {
           return std::tuple(num_stages(of), of.plan.partition, scatter_gather_of(of.plan.parallel),
                             turning_stage(of.forms));
         },
         [](StagedGraph& staged, const PassContext&, int num_stages,
            const PartitionConfig& partition, const ScatterGather& scatter,
            std::int32_t turning_stage) {
           return put(partition_stages(std::move(staged.graph), num_stages, partition, scatter,
                                       turning_stage),
                      staged);
         },
         find_staged_violation},
    Pass{"overlap", overlaps_tensor, [](const PassSource&) { return std::tuple(); },
         [](StagedGraph& staged, const PassContext&) { order_chunks(staged); },
         find_staged_violation}};

/// What differentiate() takes, which makes a training graph of a staged one.
DType differentiate_inputs(const PassSource& of) { return of.plan.training.grad_dtype; }

/// What a microbatch's forward and backward do, on each stage.
constexpr std::tuple kTrainingPasses = {
    Pass{"fp8", [](const PassSource& of) { return of.plan.training.fp8.on(); },
         [](const PassSource& of) {
           return std::tuple(of.plan.training.fp8, amax_axes(of), weight_casts(of.plan.parallel));
         },
         [](TrainingGraph& training, const PassContext&, const Fp8Config& config,
            const AmaxAxes& axes,
            WeightCasts weights) { return cast_products(training, config, axes, weights); },
         find_training_violation},
    Pass{"layouts", [](const PassSource& of) { return of.software.copies_moved_dims; },
         [](const PassSource& of) { return std::tuple(fused_moves(of.software)); },
         [](TrainingGraph& training, const PassContext&, FusedMoves fused) {
           copy_moved_dims(training, fused);
         },
         find_training_violation},
    Pass{"recompute", always,
         [](const PassSource& of) { return std::tuple(of.plan.recompute, of.kept); },
         [](TrainingGraph& training, const PassContext& with, const RecomputeConfig& config,
            const Numbered<double>& kept) {
           return recompute(training, config, with.software, kept);
         },
         find_training_violation},
    Pass{"split", [](const PassSource& of) { return any_splits(of.forms); },
         [](const PassSource&) { return std::tuple(); },
         [](TrainingGraph& training, const PassContext&) { split_backward(training); },
         find_training_violation},
    Pass{"offload", [](const PassSource& of) { return of.plan.offload.activations; },
         [](const PassSource& of) { return std::tuple(of.plan.offload, stages_at_once(of.forms)); },
         [](TrainingGraph& training, const PassContext&, const OffloadConfig& config,
            const Numbered<bool>& at_once) { offload_checkpoints(training, config, at_once); },
         find_training_violation}};

/// Segments of a Program, of which lower() makes lists of calls.
constexpr std::tuple kDraftPasses = {
    Pass{"instantiate", always,
         [](const PassSource& of) {
           return std::tuple(forms_of_segments(of), parallel_of_segments(of),
                             training_of_segments(of), of.plan.offload.horizon);
         },
         [](ProgramDraft& draft, const PassContext& with, const Numbered<StageForm>& forms,
            const ParallelConfig& parallel, const TrainingConfig& training, int horizon) {
           draft =
               instantiate(with.trainings, forms, parallel, training, training.grad_dtype, horizon);
         },
         find_draft_violation},
    Pass{"replicas", [](const PassSource& of) { return !of.plan.parallel.replicas.empty(); },
         [](const PassSource& of) {
           return std::tuple(of.plan.parallel.replicas, microbatch_sizes(of.plan.training),
                             of.plan.schedule.post_validation);
         },
         [](ProgramDraft& draft, const PassContext&, const std::vector<int>& replicas,
            const std::vector<std::int64_t>& sizes, bool passes_norm) {
           return split_transfers(draft, replica_classes(replicas, draft.forms, sizes, passes_norm),
                                  local_sizes(sizes, replicas));
         },
         find_draft_violation},
    Pass{"buffers", [](const PassSource& of) { return !of.links.empty(); },
         [](const PassSource& of) { return std::tuple(of.links, of.plan.parallel.d2d_buffer); },
         [](ProgramDraft& draft, const PassContext&, const PipelineLinks& links, Bytes buffer) {
           buffer_transfers(draft, links, buffer);
         },
         find_draft_violation},
    Pass{"pairs", [](const PassSource& of) { return !of.pairs.empty(); },
         [](const PassSource& of) { return std::tuple(of.pairs); },
         [](ProgramDraft& draft, const PassContext&, const std::vector<StagePair>& pairs) {
           add_pair_segments(draft, pairs);
         },
         find_draft_violation},
    Pass{"host_waits",
         [](const PassSource& of) {
           const ParallelConfig& parallel = of.plan.parallel;
           return parallel.pipeline > 1 &&
                  of.software.host_waits_for_transfers(any_splits(of.forms),
                                                       of.plan.num_stages() > parallel.pipeline);
         },
         [](const PassSource&) { return std::tuple(); },
         [](ProgramDraft& draft, const PassContext&) { add_host_waits(draft); },
         find_draft_violation},
    Pass{"units",
         [](const PassSource& of) {
           const ParallelConfig& parallel = of.plan.parallel;
           return (shards_state(parallel) && parallel.zero.stage >= 2) || reduces_each(parallel);
         },
         [](const PassSource& of) { return std::tuple(parallel_of_segments(of), of.successions); },
         [](ProgramDraft& draft, const PassContext& with, const ParallelConfig& parallel,
            const std::vector<CallSuccession>& successions) {
           return gather_units(draft, with.trainings.front(), parallel, successions);
         },
         find_draft_violation},
    Pass{"step", always,
         [](const PassSource& of) {
           return std::tuple(parallel_of_segments(of), training_of_segments(of));
         },
         [](ProgramDraft& draft, const PassContext& with, const ParallelConfig& parallel,
            const TrainingConfig& training) {
           add_step_segments(draft, parallel, training, with.software);
         },
         find_draft_violation},
    Pass{"post_validation", [](const PassSource& of) { return of.plan.schedule.post_validation; },
         [](const PassSource& of) { return std::tuple(of.plan.parallel.replicas); },
         [](ProgramDraft& draft, const PassContext&, const std::vector<int>& replicas) {
           return add_post_validation(draft, replicas);
         },
         find_draft_violation}};

/// All that the training graphs depend on: inputs of both tables, and of what is between them.
struct TrainingInputs {
  InputsOf<decltype(kGraphPasses)> graph;
  DType differentiate;
  InputsOf<decltype(kTrainingPasses)> training;
  friend bool operator==(const TrainingInputs&, const TrainingInputs&) = default;
};
using DraftInputs = InputsOf<decltype(kDraftPasses)>;

}  // namespace

struct Compiler::Kept {
  explicit Kept(CompilerUse of) : use(of) {}

  /// Training graphs in front of the passes of kTrainingPasses.
  struct Differentiated {
    InputsOf<decltype(kGraphPasses)> graph;
    DType differentiate;
    std::vector<TrainingGraph> trainings;
  };

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
