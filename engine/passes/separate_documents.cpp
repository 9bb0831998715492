#include "engine/passes/separate_documents.h"

namespace trainyard {

void separate_documents(Graph& graph) {
  for (Op& op : graph.ops) {
    const bool attends = op.kind == OpKind::kFlashAttention || op.kind == OpKind::kSoftmax;
    if (attends || op.kind == OpKind::kRope) op.attrs.documents = true;
  }
}

std::optional<DocumentDraws> documents_of(const Plan& plan) {
  if (!plan.documents.on()) return std::nullopt;
  const TrainingConfig& training = plan.training;
  return DocumentDraws{
      plan.documents, plan.model.seq_len, training.global_batch / plan.batch_replicas(),
      training.microbatches.empty() ? std::vector{training.microbatch} : training.microbatches};
}

}  // namespace trainyard
