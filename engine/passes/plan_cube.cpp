#include "engine/passes/plan_cube.h"

#include <utility>

#include "engine/passes/mesh_rules.h"

namespace trainyard {

namespace {

class CubeRules {
 public:
  explicit CubeRules(const MeshMethodPlan& plan)
      : mesh_(plan.mesh),
        x_(plan.tensor[0]),
        y_(plan.tensor[1]),
        z_(plan.tensor[2]),
        turned_(static_cast<AxisSet>(bit(y_) | bit(z_))) {}

  Axes batch(const PlannedOps& planned, const Op& op) const {
    if (op.kind == OpKind::kLinear) {
      const Turn turn = turn_of(planned, op);
      return turn.in != kNoAxis && turn.out != kNoAxis ? Axes{x_} : Axes{x_, other_of(turn)};
    }
    if (op.kind == OpKind::kEmbedding) return is_vocabulary(planned, op) ? Axes{x_} : Axes{x_, y_};
    if (op.kind == OpKind::kRelativeBias) return {x_, z_};
    for (const TensorId input : op.inputs) {
      if (planned.is_parameter(input)) continue;
      const TensorSpec& spec = planned.spec(input);
      const int dim = planned.batch_dims[input];
      const auto summed = static_cast<AxisSet>(spec.partial & all());
      if (dim < 0 && summed != 0) return axes_of(summed);
      if (dim < 0) continue;
      Axes rows = among_tensor(spec.dims.begin()[dim].parts.front().axes);
      if (!rows.empty()) return rows;
    }
    return {x_, y_};
  }

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    std::vector<IndexSplit> out;
    const auto split = [&](const char* index, AxisId axis) {
      if (axis != kNoAxis) out.push_back({index_named(space, index), {axis}});
    };
    switch (op.kind) {
      case OpKind::kLinear: {
        const Turn turn = turn_of(planned, op);
        split("o", turn.out);
        split("i", turn.in);
        return out;
      }
      case OpKind::kEmbedding:
        if (is_vocabulary(planned, op)) split("v", y_);
        split("h", z_);
        return out;
      case OpKind::kRelativeBias: split("n", y_); return out;
      default: return as_features_lie(planned, op, space, turned_);
    }
  }

  /// Summands of a product that has turned its features are scattered over samples.
  TensorSpec stored(const Op& op, MadeSpec made) const {
    const bool product = op.kind == OpKind::kLinear || op.kind == OpKind::kEmbedding;
    const AxisSet features = static_cast<AxisSet>(axes_in(made.spec.dims.back()) & turned_);
    if (!product || made.summed == 0 || features == 0) return std::move(made.spec);
    Axes rows = made.spec.dims.front().parts.front().axes;
    for (const AxisId axis : axes_of(made.summed)) rows.push_back(axis);
    made.spec.dims.front() = split_over(rows);
    return std::move(made.spec);
  }

  TensorSpec stored_parameter(const PlannedOps& planned, const Op& op, std::size_t input,
                              TensorSpec used) const {
    if (!is_weight(op, input)) return used;
    const bool uncut = axes_in(used.dims[0]) == 0 && op.kind == OpKind::kEmbedding;
    used = cut_further(planned, op.inputs[input], std::move(used), 1, {x_});
    return uncut ? cut_further(planned, op.inputs[input], std::move(used), 0, {y_}) : used;
  }

 private:
  /// Which axis a product sums over, and which splits its outputs; kNoAxis: none does.
  struct Turn {
    AxisId in = kNoAxis, out = kNoAxis;
  };

  AxisSet all() const { return static_cast<AxisSet>(turned_ | bit(x_)); }
  AxisId other_of(AxisId axis) const { return axis == y_ ? z_ : y_; }
  /// The axis of y and z that a product which does not turn its features leaves to samples.
  AxisId other_of(const Turn& turn) const {
    return other_of(turn.in != kNoAxis ? turn.in : turn.out);
  }
  Axes among_tensor(const Axes& axes) const {
    Axes out;
    for (const AxisId axis : axes) {
      if (has(all(), axis)) out.push_back(axis);
    }
    return out;
  }
  static bool is_vocabulary(const PlannedOps& planned, const Op& op) {
    return planned.hint(op.inputs[1]) == SplitHint::kVocabulary;
  }

  /// As the features that it reads lie; a tied weight as it is used already.
  Turn turn_of(const PlannedOps& planned, const Op& op) const {
    const TensorId weight = op.inputs[1];
    if (planned.sharding.stored[weight] != kNoIndex) {
      const TensorSpec& known = planned.spec(weight);
      return {axis_in(axes_in(known.dims[1])), axis_in(axes_in(known.dims[0]))};
    }
    const AxisId in = axis_in(feature_axes(planned, op.inputs[0], turned_));
    if (!divides_outputs(planned, op, group_size(mesh_, {y_}))) return {in, kNoAxis};
    return {in, in == kNoAxis ? z_ : other_of(in)};
  }
  AxisId axis_in(AxisSet axes) const {
    const auto turned = static_cast<AxisSet>(axes & turned_);
    return turned == 0 ? kNoAxis : axes_of(turned).front();
  }

  const DeviceMesh& mesh_;
  AxisId x_, y_, z_;
  AxisSet turned_;  // y and z
};

}  // namespace

std::variant<PlannedGraph, Infeasible> plan_cube(Graph graph, const MeshMethodPlan& plan) {
  return plan_by_mesh_rules(std::move(graph), plan, CubeRules(plan));
}

}  // namespace trainyard
