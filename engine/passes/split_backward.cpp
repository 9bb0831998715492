#include "engine/passes/split_backward.h"

#include <algorithm>
#include <vector>

namespace trainyard {

namespace {

TensorId root_of(const Graph& graph, TensorId id) {
  while (graph.tensors[id].alias != kNoIndex) {
    id = graph.tensors[id].alias;
  }
  return id;
}

/// Who reads a storage in the backward, beside W.
struct Readers {
  bool in_weight_half = false;
  bool elsewhere = false;
};

/// May be W if only W reads what it writes: a product of weight gradients, a gather, what is cast
/// of it or transposed for such a product, what brings the gradient of a gathered weight back.
bool serves_readers(const Graph& graph, const Instruction& op) {
  const auto of_parameter = [&] {
    const auto& inputs = graph.ops[op.origin].inputs;
    return !inputs.empty() && graph.tensors[inputs[0]].role == TensorRole::kParameter;
  };
  if (op.kind == OpKind::kReduceScatter && of_parameter()) return true;
  const bool moves = op.kind == OpKind::kAllGather || op.kind == OpKind::kQuantize ||
                     (op.kind == OpKind::kTranspose && op.part == OpPart::kForward);
  return op.part == OpPart::kWeightGrad || (moves && !op.recomputed);
}

}  // namespace

void split_backward(TrainingGraph& training) {
  const Graph& graph = training.graph;
  Indexed<TensorId, Readers> readers(graph.tensors.size());
  const auto of = [&](TensorId id) -> Readers& { return readers[root_of(graph, id)]; };
  // What is sent back is freed once it has left, so nothing that a stage does later may need it.
  Indexed<TensorId, bool> sent(graph.tensors.size(), false);
  for (const Instruction& op : training.backward) {
    if (op.kind != OpKind::kSend) continue;
    for (TensorId id : op.reads) sent[root_of(graph, id)] = true;
  }
  const auto is_sent = [&](TensorId id) { return sent[root_of(graph, id)]; };
  for (auto op = training.backward.rbegin(); op != training.backward.rend(); ++op) {
    const bool adds_only = op->writes.empty() && !op->accumulates.empty();
    const bool serves = serves_readers(graph, *op) &&
                        std::all_of(op->writes.begin(), op->writes.end(), [&](TensorId id) {
                          return of(id).in_weight_half && !of(id).elsewhere;
                        });
    op->weight_half = op->kind != OpKind::kSend && (adds_only || serves) &&
                      std::none_of(op->reads.begin(), op->reads.end(), is_sent);
    for (TensorId id : op->reads)
      (op->weight_half ? of(id).in_weight_half : of(id).elsewhere) = true;
  }
}

}  // namespace trainyard
