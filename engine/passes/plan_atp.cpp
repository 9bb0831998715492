#include "engine/passes/plan_atp.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/op_planner.h"
#include "engine/passes/plan_megatron.h"

namespace trainyard {

namespace {

bool is_row_linear(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::kLinear) return false;
  const ParameterId weight = graph.tensors[op.inputs[1]].parameter;
  return weight != kNoIndex && graph.parameters[weight].split == SplitHint::kRow;
}

Axes among(const Axes& axes, AxisSet kept) {
  Axes out;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(out),
               [&](AxisId axis) { return has(kept, axis); });
  return out;
}

class AtpRules {
 public:
  AtpRules(const Graph& graph, const AtpPlan& plan)
      : plan_(plan),
        sequence_(plan.sequence_parallel && !plan.first.empty()),
        feeds_rows_(graph.tensors.size(), false) {
    both_ = plan.first;
    both_.insert(both_.end(), plan.second.begin(), plan.second.end());
    for (const Op& op : graph.ops) {
      if (is_row_linear(graph, op)) feeds_rows_[op.inputs[0]] = true;
    }
  }

  const Axes& both() const { return both_; }
  /// What a row-first linear reads is whole along the second axis.
  bool feeds_rows(TensorId id) const {
    return id.number() < std::ssize(feeds_rows_) && feeds_rows_[id];
  }

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    const auto along = [&](const char* outputs, const Axes& of_outputs, const char* inputs,
                           const Axes& of_inputs) {
      std::vector<IndexSplit> out;
      if (!of_outputs.empty()) out.push_back({index_named(space, outputs), of_outputs});
      if (!of_inputs.empty()) out.push_back({index_named(space, inputs), of_inputs});
      return out;
    };
    if (op.kind == OpKind::kLinear) {
      switch (planned.hint(op.inputs[1])) {
        case SplitHint::kColumn: return along("o", plan_.first, "i", plan_.second);
        case SplitHint::kRow: return along("o", plan_.second, "i", plan_.first);
        case SplitHint::kVocabulary: return {{index_named(space, "o"), both_}};
        default: break;
      }
    }
    if (op.kind == OpKind::kEmbedding) {
      if (planned.hint(op.inputs[1]) == SplitHint::kVocabulary)
        return {{index_named(space, "v"), both_}};
      std::vector<IndexSplit> out = {{index_named(space, "h"), plan_.second}};
      if (sequence_ && is_sequence(planned.tensor(op.outputs[0]).shape))
        out.push_back({index_of_dim(space.operands[0], kSequenceDim), plan_.first});
      return out;
    }
    if (op.kind == OpKind::kRelativeBias) return {{index_named(space, "n"), both_}};
    if (op.attrs->heads > 0) return {{index_named(space, "g"), both_}};
    return as_an_operand_lies(planned, op, space);
  }

  TensorSpec stored(const PlannedOps& planned, const Op& op, std::size_t result,
                    MadeSpec made) const {
    const TensorId id = op.outputs.begin()[result];
    const Tensor& t = planned.tensor(id);
    if (op.kind == OpKind::kEmbedding && made.summed != 0)
      made.spec.dims.back() = split_over(plan_.second);
    const bool along_first = (made.summed & set_of(plan_.first)) != 0;
    if (sequence_ && along_first && t.needs_gradient && is_sequence(t.shape))
      made.spec.dims[kSequenceDim] = split_over(plan_.first);
    if (!feeds_rows(id)) return std::move(made.spec);
    const auto split = dim_split_over(made.spec, set_of(both_));
    if (split && split->axes == both_) made.spec.dims.back() = split_over(plan_.first);
    return std::move(made.spec);
  }

 private:
  /// Several positions of a sample: a class token, of which it has one, is every rank's.
  static bool is_sequence(const Shape& shape) {
    return shape.size() == 3 && shape[kSequenceDim] > 1;
  }

  /// Each element or row by itself, as the first operand lies that is split.
  std::vector<IndexSplit> as_an_operand_lies(const PlannedOps& planned, const Op& op,
                                             const IndexSpace& space) const {
    std::vector<IndexSplit> out;
    for (std::size_t i = 0; i < op.inputs.size() && out.empty(); ++i) {
      if (planned.is_parameter(op.inputs[i])) continue;
      const TensorSpec& spec = planned.spec(op.inputs[i]);
      for (std::size_t d = 0; d < spec.dims.size(); ++d) {
        const Axes axes = among(spec.dims[d].parts.front().axes, set_of(both_));
        const bool positions = d == kSequenceDim && d + 1 < spec.dims.size();
        if (axes.empty() || (positions && op.kind == OpKind::kSelectFirst)) continue;
        const int index = index_of_dim(space.operands[i], static_cast<int>(d));
        if (space.indices[index].use == IndexUse::kFree) out.push_back({index, axes});
      }
    }
    return out;
  }

  const AtpPlan& plan_;
  bool sequence_;
  Axes both_;
  Indexed<TensorId, bool> feeds_rows_;
};

}  // namespace

std::optional<AtpPlan> atp_plan(const ParallelConfig& parallel) {
  check(!parallel.tensor_mesh.empty(), "the study's reader has chosen a mesh");
  if (parallel.sizes_of_tensor_axes().empty()) return std::nullopt;
  const MegatronPlan megatron = megatron_plan(parallel);
  const auto axes = [&](const char* name) {
    return find_axes(megatron.mesh, name).value_or(Axes{});
  };
  return AtpPlan{megatron.mesh, megatron.data, axes("tp0"), axes("tp1"),
                 parallel.sequence_parallel};
}

std::variant<PlannedGraph, Infeasible> plan_atp(Graph graph, const AtpPlan& plan) {
  const AtpRules rules(graph, plan);
  Sharding sharding;
  sharding.mesh = plan.mesh;
  sharding.late = set_of(plan.data);
  SplitRules walk{plan.data,
                  rules.both(),
                  true,
                  [&](TensorId id) { return rules.feeds_rows(id) ? 1 : 0; },
                  [&](const PlannedOps& planned, const Op& op, const IndexSpace& space) {
                    return rules.splits(planned, op, space);
                  },
                  [&](const PlannedOps& planned, const Op& op, std::size_t result, MadeSpec made) {
                    return rules.stored(planned, op, result, std::move(made));
                  }};
  walk.several_dims = plan.sequence_parallel;
  return plan_ops(std::move(graph), std::move(sharding), walk);
}

}  // namespace trainyard
