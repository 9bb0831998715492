#include "engine/planner/splits_of_op.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "engine/graph/op_space.h"
#include "engine/passes/complete_spec.h"
#include "engine/passes/fp8_products.h"

namespace trainyard {

namespace {

bool is_product(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kConv2d || kind == OpKind::kConvTranspose2d ||
         kind == OpKind::kFlashAttention || kind == OpKind::kScores || kind == OpKind::kContext ||
         kind == OpKind::kBmm;
}

/// Adds an axis to the split of an index.
void add_split(Strategy& strategy, int index, AxisId axis) {
  auto at = std::find_if(strategy.split.begin(), strategy.split.end(),
                         [&](const IndexSplit& one) { return one.index >= index; });
  if (at == strategy.split.end() || at->index != index) at = strategy.split.insert(at, {index, {}});
  at->axes.push_back(axis);
}

class Splits {
 public:
  Splits(const Graph& graph, OpId id, const Axes& tensor, const PlannedGraph& whole, bool fp8,
         Sharding& sharding)
      : graph_(graph),
        op_(graph.ops[id]),
        whole_(whole.sharding.splits[whole.sharding.ops[id]]),
        tensor_(tensor),
        sharding_(sharding),
        of_logits_(op_.kind == OpKind::kCrossEntropy),
        cast_(fp8 && is_cast_layer(graph, op_)) {
    space_ = of_logits_ ? space_of_maximum(whole) : base_space(whole, op_);
  }

  std::vector<SplitOp> run() {
    if (!space_) return {};
    // A maximum over logits has no summands: late axes cut rows alone.
    Strategy strategy = whole_.strategy;
    each_use(0, strategy, 1);
    if (!is_product(op_.kind)) return std::move(out_);
    const std::int64_t most = ranks_.empty() ? 1 : *std::max_element(ranks_.begin(), ranks_.end());
    std::vector<SplitOp> kept;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (ranks_[i] == most) kept.push_back(std::move(out_[i]));
    }
    return kept;
  }

 private:
  std::optional<IndexSpace> space_of_maximum(const PlannedGraph& whole) const {
    if (op_.inputs.size() != 2) return std::nullopt;
    const TensorId logits = op_.inputs[0];
    const TensorSpec& spec = whole.sharding.specs[whole.sharding.stored[logits]];
    Op op;
    op.kind = OpKind::kCrossEntropyMax;
    op.inputs = {logits};
    auto space =
        op_space(graph_, op, {global_extents(graph_.tensors[logits].shape, spec, sharding_)});
    if (auto* found = std::get_if<IndexSpace>(&space)) return std::move(*found);
    return std::nullopt;
  }

  void each_use(std::size_t axis, const Strategy& strategy, std::int64_t ranks) {
    if (axis == tensor_.size()) return add(strategy, ranks);
    each_use(axis + 1, strategy, ranks);
    for (std::size_t i = 0; i < space_->indices.size(); ++i) {
      const OpIndex& index = space_->indices[static_cast<std::int64_t>(i)];
      const std::int32_t size = sharding_.mesh.size(tensor_[axis]);
      if (index.use != IndexUse::kFree || index.extent % size != 0) continue;
      Strategy longer = strategy;
      add_split(longer, static_cast<int>(i), tensor_[axis]);
      each_use(axis + 1, longer, ranks * size);
    }
  }

  void add(const Strategy& strategy, std::int64_t ranks) {
    std::variant<SplitOp, Infeasible> split =
        of_logits_ ? split_loss(strategy) : split_op(graph_, op_, *space_, strategy, sharding_);
    auto* made = std::get_if<SplitOp>(&split);
    if (made == nullptr || !divides(*made)) return;
    out_.push_back(std::move(*made));
    ranks_.push_back(ranks);
  }

  /// The logits' spec; the rest as one device has it.
  std::variant<SplitOp, Infeasible> split_loss(const Strategy& strategy) {
    auto applied = apply(*space_, strategy, sharding_.mesh);
    if (auto* reason = std::get_if<Infeasible>(&applied)) return std::move(*reason);
    SplitOp out = whole_;
    out.strategy = strategy;
    out.operands[0] = sharding_.specs.add(std::get<OperandSpecs>(applied).operands[0]);
    const Shape& logits = graph_.tensors[op_.inputs[0]].shape;
    for (std::size_t i = 1; i < op_.outputs.size(); ++i) {
      if (graph_.tensors[op_.outputs[i]].shape == logits) out.results[i] = out.operands[0];
    }
    return out;
  }

  bool divides(const SplitOp& split) const {
    const auto fits = [&](TensorId id, SpecId spec) {
      const Tensor& t = graph_.tensors[id];
      const auto local = local_shape(t.name, t.shape, sharding_.specs[spec], sharding_);
      const auto* part = std::get_if<Shape>(&local);
      if (part == nullptr) return false;
      return !cast_ || id != op_.inputs[1] || can_cast_part(*part);
    };
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      if (!fits(op_.inputs[i], split.operands[i])) return false;
    }
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      if (!fits(op_.outputs[i], split.results[i])) return false;
      // A loss that ranks have alike starts a gradient once.
      if (op_.outputs[i] == graph_.loss && !of_logits_ &&
          (sharding_.specs[split.results[i]].entered & set_of(tensor_)) != 0)
        return false;
    }
    return true;
  }

  const Graph& graph_;
  const Op& op_;
  SplitOp whole_;
  const Axes& tensor_;
  Sharding& sharding_;
  bool of_logits_;
  bool cast_;
  std::optional<IndexSpace> space_;
  std::vector<SplitOp> out_;
  std::vector<std::int64_t> ranks_;  // that share the work of each
};

}  // namespace

std::vector<SplitOp> splits_of_op(const Graph& graph, OpId id, const Axes& tensor,
                                  const PlannedGraph& whole, bool fp8, Sharding& sharding) {
  return Splits(graph, id, tensor, whole, fp8, sharding).run();
}

}  // namespace trainyard
