#include "engine/passes/separate_documents.h"

#include <algorithm>

#include "engine/passes/plan_mesh.h"

namespace trainyard {

void separate_documents(Graph& graph) {
  for (Op& op : graph.ops) {
    const bool attends = op.kind == OpKind::kFlashAttention || op.kind == OpKind::kSoftmax;
    if (attends || op.kind == OpKind::kRope) op.attrs.set(&OpAttrs::documents, true);
  }
}

std::optional<Infeasible> document_obstacle(const Plan& plan, const TrainingGraph& training) {
  if (!plan.documents.on() || plan.sharding.empty()) return std::nullopt;
  const Graph& graph = training.graph;
  const Axes data = data_axes(graph_mesh_of(plan.parallel));
  for (const Instruction& op : training.forward) {
    if (!op.attrs->documents) continue;
    const Tensor& read = graph.tensors[op.reads[0]];
    const TensorSpec& spec = graph.specs[read.spec];
    const std::size_t sequence = op.kind == OpKind::kSoftmax ? 2 : 1;
    const char* cut = nullptr;
    if (axes_in(spec.dims[sequence]) != 0) cut = "its sequence, and documents are of whole ones";
    // A rank has a run of its replica's samples.
    const Axes& samples = spec.dims[0].parts[0].axes;
    if (samples.size() < data.size() || !std::equal(data.begin(), data.end(), samples.begin()))
      cut = "samples before replicas are, and documents count on those of a replica";
    if (cut != nullptr) return Infeasible{read.name + " is cut over " + cut, "sharding"};
  }
  return std::nullopt;
}

std::optional<DocumentDraws> documents_of(const Plan& plan) {
  if (!plan.documents.on()) return std::nullopt;
  const TrainingConfig& training = plan.training;
  DocumentDraws draws{plan.documents, plan.model.seq_len};
  draws.replicas = plan.partition.replicas.empty() ? plan.parallel.data : 1;
  draws.per_replica = training.global_batch / draws.replicas;
  draws.sizes =
      training.microbatches.empty() ? std::vector{training.microbatch} : training.microbatches;
  for (std::int64_t& size : draws.sizes) size *= plan.parallel.batch_ranks();
  if (plan.documents.of_tokens) draws.samples = training.global_batch;
  return draws;
}

}  // namespace trainyard
