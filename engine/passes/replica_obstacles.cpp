#include "engine/passes/replica_obstacles.h"

#include <string>

#include "engine/passes/plan_mesh.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

std::optional<Infeasible> replica_obstacle(const Plan& plan) {
  const std::vector<int>& replicas = plan.parallel.replicas;
  if (replicas.empty()) return std::nullopt;
  const std::int64_t fewest = microbatch_sizes(plan.training).back();
  for (std::size_t rank = 0; rank < replicas.size(); ++rank) {
    if (replicas[rank] <= fewest) continue;
    return Infeasible{"a microbatch of " + std::to_string(fewest) + " sequences leaves none for " +
                          std::to_string(replicas[rank] - fewest) + " of the " +
                          std::to_string(replicas[rank]) + " replicas of pipeline rank " +
                          std::to_string(rank),
                      "training.microbatch"};
  }
  return std::nullopt;
}

std::optional<Infeasible> transfer_obstacle(const Plan& plan,
                                            const std::vector<TrainingGraph>& trainings) {
  if (plan.parallel.replicas.empty()) return std::nullopt;
  const Graph& graph = trainings.front().graph;
  const Axes data = data_axes(graph_mesh_of(plan.parallel));
  for (const Instruction& op : trainings.front().forward) {
    if (op.kind != OpKind::kSend) continue;
    const Tensor& sent = graph.tensors[op.reads[0]];
    const TensorSpec& spec = graph.specs[sent.spec];
    AxisSet cut = 0;
    for (const DimSplit& dim : spec.dims) cut = static_cast<AxisSet>(cut | axes_in(dim));
    const bool by_sequences = !spec.dims.empty() && spec.dims[0].parts[0].axes == data;
    if (by_sequences || (cut & set_of(data)) == 0) continue;
    return Infeasible{sent.name + " goes from stage " + std::to_string(op.stage - 1) +
                          " to stage " + std::to_string(op.stage) +
                          ", and is split by other axes than the replicas in its first dim",
                      "partition.replicas"};
  }
  return std::nullopt;
}

}  // namespace trainyard
