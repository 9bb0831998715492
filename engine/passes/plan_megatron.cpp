#include "engine/passes/plan_megatron.h"

#include <optional>
#include <utility>
#include <vector>

#include "engine/passes/attention_blocks.h"
#include "engine/passes/chosen_modules.h"
#include "engine/passes/op_planner.h"
#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

class MegatronRules {
 public:
  MegatronRules(const MegatronPlan& plan, const std::function<bool(TensorId)>& gathers)
      : plan_(plan),
        gathers_(gathers),
        degree_(group_size(plan.mesh, plan.tensor)),
        sequence_(plan.sequence_parallel && degree_ > 1),
        context_ranks_(group_size(plan.mesh, plan.context)),
        exchanges_heads_(plan.context_config.method == ContextConfig::Method::kUlysses),
        zig_zag_(plan.context_config.balance == ContextConfig::Balance::kZigZag &&
                 set_of(plan.context) != 0) {}

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    const auto tensor = tensor_index(planned, op, space), context = context_index(op, space);
    std::vector<IndexSplit> out;
    if (tensor && tensor == context) {
      const bool tokens = space.indices[*tensor].name != "g";
      Axes axes = tokens ? tokens_over(plan_.tensor) : plan_.tensor;
      if (!tokens) axes.insert(axes.end(), plan_.context.begin(), plan_.context.end());
      out.push_back({*tensor, axes});
    } else {
      if (tensor) out.push_back({*tensor, plan_.tensor});
      if (context) out.push_back({*context, plan_.context});
    }
    return out;
  }

  /// Summands of tensor parallelism are added up at once, or scattered over the sequence.
  TensorSpec stored(const PlannedOps& planned, const Op& op, std::size_t result,
                    MadeSpec made) const {
    const TensorId id = op.outputs.begin()[result];
    const Tensor& t = planned.tensor(id);
    if (gathers_(id) && degree_ > 1) made.spec.dims.back() = DimSplit{};
    if (made.summed != 0 && sequence_ && t.needs_gradient)
      made.spec.dims[kSequenceDim] =
          split_sequence(tokens_over(plan_.tensor), t.shape[kSequenceDim]);
    return std::move(made.spec);
  }

 private:
  /// The dim of an activation that tensor parallelism splits; -1: none.
  int tensor_dim(const PlannedOps& planned, TensorId id) const {
    if (degree_ == 1 || planned.is_parameter(id)) return -1;
    return dim_of(planned.spec(id), plan_.tensor.front()).value_or(-1);
  }

  /// Which index tensor parallelism splits; nullopt: all its ranks do the same.
  std::optional<int> tensor_index(const PlannedOps& planned, const Op& op,
                                  const IndexSpace& space) const {
    if (degree_ == 1) return std::nullopt;
    if (op.kind == OpKind::kLinear) {
      const SplitHint split = planned.hint(op.inputs[1]);
      if (split == SplitHint::kColumn || split == SplitHint::kVocabulary)
        return index_named(space, "o");
      if (split == SplitHint::kRow) return index_named(space, "i");
    }
    if (op.kind == OpKind::kEmbedding) {
      const SplitHint split = planned.hint(op.inputs[1]);
      if (split == SplitHint::kVocabulary) return index_named(space, "v");
      if (split == SplitHint::kRow) return index_named(space, "h");
      // Look up only the own positions: the token ids are sliced, not the rows. A class token, of
      // which a sequence has one, is every rank's.
      const Shape& rows = planned.tensor(op.outputs[0]).shape;
      if (sequence_ && rows.size() == 3 && rows[kSequenceDim] > 1)
        return index_of_dim(space.operands[0], kSequenceDim);
      return std::nullopt;
    }
    if (op.kind == OpKind::kRelativeBias && planned.hint(op.inputs[0]) == SplitHint::kHeads)
      return index_named(space, "n");
    if (op.kind == OpKind::kSelectFirst) return std::nullopt;
    // Each element, row or head by itself, as the first operand lies that is split.
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const int dim = tensor_dim(planned, op.inputs[i]);
      // Masks are of whole sequences: attention that is not split by heads gathers them.
      const bool part_of_sequence = dim == kSequenceDim && op.attrs->heads > 0 &&
                                    planned.tensor(op.inputs[i]).shape.size() == 3;
      if (dim < 0 || part_of_sequence) continue;
      const int index = index_of_dim(space.operands[i], dim);
      const bool summed = op.kind == OpKind::kLinear && index == index_named(space, "i");
      if (!summed && space.indices[index].use == IndexUse::kFree) return index;
    }
    return std::nullopt;
  }

  /// Which index context parallelism splits: tokens, but heads in attention that exchanged them.
  std::optional<int> context_index(const Op& op, const IndexSpace& space) const {
    if (context_ranks_ == 1) return std::nullopt;
    const bool of_heads = op.attrs->heads > 0 && op.kind != OpKind::kRope &&
                          op.kind != OpKind::kHeadNorm && op.kind != OpKind::kBlockAttention;
    if (of_heads && exchanges_heads_) return index_named(space, "g");
    if (space.operands.empty() || space.operands[0].dims.size() <= kSequenceDim)
      return std::nullopt;
    return index_of_dim(space.operands[0], kSequenceDim);
  }

  /// Pieces of the sequence are context parallelism's first, heads tensor parallelism's.
  Axes tokens_over(const Axes& more) const {
    Axes axes = plan_.context;
    axes.insert(axes.end(), more.begin(), more.end());
    return axes;
  }
  DimSplit split_sequence(const Axes& axes, std::int64_t extent) const {
    return zig_zag_ ? zig_zag_split(axes, extent) : split_over(axes);
  }

  const MegatronPlan& plan_;
  const std::function<bool(TensorId)>& gathers_;
  std::int64_t degree_;
  bool sequence_;
  std::int64_t context_ranks_;
  bool exchanges_heads_;
  bool zig_zag_;
};

}  // namespace

MegatronPlan megatron_plan(const ParallelConfig& parallel) {
  MegatronPlan plan;
  plan.mesh = graph_mesh_of(parallel);
  plan.data = find_axes(plan.mesh, "dp").value_or(Axes{});
  plan.tensor = find_axes(plan.mesh, "tp").value_or(Axes{});
  plan.sequence_parallel = parallel.sequence_parallel;
  plan.context = context_axes(plan.mesh);
  plan.context_config = parallel.context;
  plan.modules = parallel.tensor_modules;
  return plan;
}

std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan) {
  return plan_megatron(std::move(graph), plan, [](TensorId) { return false; });
}

std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan,
                                                     const std::function<bool(TensorId)>& gathers) {
  if (!plan.modules.empty() && !plan.tensor.empty()) {
    auto chosen = with_chosen_split(std::move(graph), plan.modules);
    if (auto* reason = std::get_if<Infeasible>(&chosen)) return std::move(*reason);
    graph = std::get<Graph>(std::move(chosen));
  }
  const ContextConfig& context = plan.context_config;
  if (context.degree > 1 && context.method != ContextConfig::Method::kUlysses)
    graph = with_attention_blocks(std::move(graph), context);
  Sharding sharding;
  sharding.mesh = plan.mesh;
  sharding.late = static_cast<AxisSet>(set_of(plan.data) & ~plan.early);
  sharding.uneven = plan.uneven;
  if (context.balance == ContextConfig::Balance::kZigZag) sharding.zig_zag = set_of(plan.context);
  const MegatronRules rules(plan, gathers);
  return plan_ops(std::move(graph), std::move(sharding),
                  {plan.data, plan.tensor, false, [&](TensorId id) { return gathers(id) ? 1 : 0; },
                   [&](const PlannedOps& planned, const Op& op, const IndexSpace& space) {
                     return rules.splits(planned, op, space);
                   },
                   [&](const PlannedOps& planned, const Op& op, std::size_t result, MadeSpec made) {
                     return rules.stored(planned, op, result, std::move(made));
                   }});
}

}  // namespace trainyard
