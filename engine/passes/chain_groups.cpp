#include "engine/passes/chain_groups.h"

#include <algorithm>
#include <string_view>

#include "engine/recompute/linearise.h"

namespace trainyard {

namespace {

/// Neither computed by the stage from what it holds, nor to be computed again.
bool stands_outside(const TrainingGraph& training, const Instruction& op) {
  const bool flat = op.attrs->dim < 0;
  if (op.kind == OpKind::kLoad || op.kind == OpKind::kEmbedding ||
      (flat && (op.kind == OpKind::kSlice || op.kind == OpKind::kAllGather)))
    return true;
  // Summed up over the tensor group in the storage that the embedding wrote.
  if (op.kind != OpKind::kAllReduce) return false;
  const OpId producer = training.graph.tensors[op.reads[0]].producer;
  return producer != kNoIndex && training.graph.ops[producer].kind == OpKind::kEmbedding;
}

/// "encoder" of "encoder.layers.3.mlp.fc1".
std::string_view stack_of(const TrainingGraph& training, const Instruction& op) {
  const std::string_view module = training.graph.modules[op.module];
  return module.substr(0, module.find('.'));
}

class Grouper {
 public:
  explicit Grouper(const TrainingGraph& training)
      : training_(training),
        made_by_(training.graph.tensors.size(), -1),
        layers_(training.graph.tensors.size(), 0),
        last_layer_(training.graph.tensors.size(), -1) {
    out_.always_kept.assign(training.graph.tensors.size(), false);
    out_.handed_on.assign(training.graph.tensors.size(), false);
  }

  ChainGroups run() {
    for (std::size_t i = 0; i < training_.forward.size(); ++i) {
      const Instruction& op = training_.forward[i];
      if (op.kind == OpKind::kSend) continue;
      for (const TensorId write : op.writes) made_by_[write] = static_cast<std::int64_t>(i);
      for (const TensorId read : op.reads) count_layer(read, op);
    }
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage)
      out_.of_stage.push_back(groups_of(stage));
    find_kept();
    return std::move(out_);
  }

 private:
  static constexpr int kManyLayers = 3;

  /// Layers of another stack that read what is made here.
  void count_layer(TensorId read, const Instruction& op) {
    const std::int64_t maker = made_by_[read];
    if (maker < 0 || op.layer < 0 || last_layer_[read] == op.layer) return;
    if (stack_of(training_, training_.forward[maker]) == stack_of(training_, op)) return;
    last_layer_[read] = op.layer;
    ++layers_[read];
  }

  bool is_common(const Instruction& op) const {
    bool gradient = false, values = false, far = false;
    for (const TensorId write : op.writes) {
      gradient = gradient || training_.graph.tensors[write].needs_gradient;
      far = far || layers_[write] >= kManyLayers;
    }
    for (const TensorId read : op.reads)
      values = values || training_.graph.tensors[read].role != TensorRole::kParameter;
    return !gradient || !values || far;
  }

  std::vector<std::vector<std::size_t>> groups_of(std::int32_t stage) {
    std::vector<LinkedNode> nodes;
    std::vector<std::size_t> numbers;  // [node] into the forward
    std::vector<std::int64_t> node_of(training_.forward.size(), -1);
    for (std::size_t i = 0; i < training_.forward.size(); ++i) {
      const Instruction& op = training_.forward[i];
      if (op.stage != stage || op.kind == OpKind::kSend) continue;
      node_of[i] = static_cast<std::int64_t>(nodes.size());
      LinkedNode& node = nodes.emplace_back();
      numbers.push_back(i);
      node.input = stands_outside(training_, op);
      node.output =
          std::find(op.writes.begin(), op.writes.end(), training_.graph.loss) != op.writes.end();
      node.communication = is_communication(op.kind);
      // What is written over cannot be computed from again; nor does a view stay without its
      // storage.
      node.in_place = std::any_of(op.writes.begin(), op.writes.end(), [&](TensorId write) {
        return training_.graph.tensors[write].alias != kNoIndex;
      });
      node.common = is_common(op);
      for (const TensorId read : op.reads) {
        const std::int64_t maker = made_by_[read];
        if (maker < 0 || node_of[maker] < 0) continue;
        const std::size_t number = node_of[maker];
        if (std::find(node.reads.begin(), node.reads.end(), number) == node.reads.end())
          node.reads.push_back(number);
      }
    }
    std::vector<std::vector<std::size_t>> groups = linearise(nodes).groups;
    for (auto& group : groups) {
      for (std::size_t& node : group) node = numbers[node];
    }
    return groups;
  }

  void find_kept() {
    const Indexed<OpId, std::int32_t> groups = group_of_ops(training_, out_);
    for (const Instruction& op : training_.forward) {
      if (op.kind == OpKind::kSend) continue;
      for (const TensorId read : op.reads) {
        const std::int64_t maker = made_by_[read];
        if (maker < 0) continue;
        const Instruction& made = training_.forward[maker];
        if (groups[made.origin] < 0) continue;
        const bool same = made.stage == op.stage && groups[made.origin] == groups[op.origin];
        if (!same) (is_common(made) ? out_.always_kept : out_.handed_on)[read] = true;
      }
    }
  }

  const TrainingGraph& training_;
  Indexed<TensorId, std::int64_t> made_by_;
  Indexed<TensorId, int> layers_;
  Indexed<TensorId, std::int32_t> last_layer_;
  ChainGroups out_;
};

}  // namespace

ChainGroups chain_groups(const TrainingGraph& training) { return Grouper(training).run(); }

Indexed<OpId, std::int32_t> group_of_ops(const TrainingGraph& training, const ChainGroups& groups) {
  Indexed<OpId, std::int32_t> out(training.graph.ops.size(), -1);
  for (const auto& of_stage : groups.of_stage) {
    for (std::size_t g = 0; g < of_stage.size(); ++g) {
      for (const std::size_t i : of_stage[g])
        out[training.forward[i].origin] = static_cast<std::int32_t>(g);
    }
  }
  return out;
}

}  // namespace trainyard
