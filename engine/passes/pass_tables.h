// The passes of a compilation, in three tables: compile.cpp walks them.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/partition/stage_partition.h"
#include "engine/passes/apply_sharding.h"
#include "engine/passes/buffer_transfers.h"
#include "engine/passes/chunk_order.h"
#include "engine/passes/copy_moved_dims.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/fp8_products.h"
#include "engine/passes/gather_units.h"
#include "engine/passes/host_waits.h"
#include "engine/passes/instantiate.h"
#include "engine/passes/offload.h"
#include "engine/passes/pair_segments.h"
#include "engine/passes/pass.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/plan_splits.h"
#include "engine/passes/post_validation.h"
#include "engine/passes/recompute.h"
#include "engine/passes/replica_classes.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/separate_documents.h"
#include "engine/passes/split_backward.h"
#include "engine/passes/split_batch.h"
#include "engine/passes/split_transfers.h"
#include "engine/passes/step_segments.h"
#include "engine/plan/graph_source.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

inline bool always(const PassSource&) { return true; }
inline bool packs_documents(const PassSource& of) { return of.plan.documents.on(); }
inline bool overlaps_tensor(const PassSource& of) {
  return of.plan.parallel.tensor_overlap != "none";
}
inline WeightCasts weight_casts(const ParallelConfig& parallel) {
  if (!shards_parameters(parallel)) return WeightCasts::kOncePerStep;
  return parallel.zero.gathers_fp8 ? WeightCasts::kGathered : WeightCasts::kAtUse;
}
inline int num_stages(const PassSource& of) { return static_cast<int>(of.forms.size()); }
inline bool waits_for_transfers(const PassSource& of) {
  const int ranks = of.plan.parallel.pipeline;
  return ranks > 1 &&
         of.software.host_waits_for_transfers(any_splits(of.forms), of.plan.num_stages() > ranks);
}

/// The model of one device -> that of a tensor-parallel rank, in stages.
inline constexpr std::tuple kGraphPasses = {
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
inline DType differentiate_inputs(const PassSource& of) { return of.plan.training.grad_dtype; }

/// What a microbatch's forward and backward do, on each stage.
inline constexpr std::tuple kTrainingPasses = {
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
inline constexpr std::tuple kDraftPasses = {
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
           return waits_for_transfers(of) ||
                  of.software.host_waits_for_passes(any_splits(of.forms));
         },
         [](const PassSource& of) { return std::tuple(waits_for_transfers(of)); },
         [](ProgramDraft& draft, const PassContext&, bool of_transfers) {
           add_host_waits(draft, of_transfers);
         },
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

}  // namespace trainyard
