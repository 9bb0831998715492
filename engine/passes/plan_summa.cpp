#include "engine/passes/plan_summa.h"

#include <utility>

#include "engine/passes/mesh_rules.h"

namespace trainyard {

namespace {

class SummaRules {
 public:
  explicit SummaRules(const MeshMethodPlan& plan)
      : mesh_(plan.mesh),
        samples_(plan.tensor.begin(), plan.tensor.end() - 1),
        rows_{plan.tensor.end()[-2]},
        columns_{plan.tensor.back()} {}

  Axes batch(const PlannedOps&, const Op&) const { return samples_; }

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    const auto over_columns = [&](const char* index) {
      return std::vector<IndexSplit>{{index_named(space, index), columns_}};
    };
    switch (op.kind) {
      case OpKind::kLinear:
        // Where the columns do not divide the outputs, of a head's few classes, they do the inputs.
        return over_columns(divides_outputs(planned, op, group_size(mesh_, columns_)) ? "o" : "i");
      case OpKind::kEmbedding:
        return over_columns(planned.hint(op.inputs[1]) == SplitHint::kVocabulary ? "v" : "h");
      case OpKind::kRelativeBias: return over_columns("n");
      default: return as_features_lie(planned, op, space, set_of(columns_));
    }
  }

  TensorSpec stored(const Op& op, MadeSpec made) const {
    if (op.kind == OpKind::kEmbedding && made.summed != 0)
      made.spec.dims.back() = split_over(columns_);
    return std::move(made.spec);
  }

  TensorSpec stored_parameter(const PlannedOps& planned, const Op& op, std::size_t input,
                              TensorSpec used) const {
    if (!is_weight(op, input)) return used;
    const std::size_t dim = axes_in(used.dims[0]) != 0 ? 1 : 0;
    return cut_further(planned, op.inputs[input], std::move(used), dim, rows_);
  }

 private:
  const DeviceMesh& mesh_;
  Axes samples_, rows_, columns_;
};

}  // namespace

std::variant<PlannedGraph, Infeasible> plan_summa(Graph graph, const MeshMethodPlan& plan) {
  return plan_by_mesh_rules(std::move(graph), plan, SummaRules(plan));
}

}  // namespace trainyard
