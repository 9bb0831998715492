#include "engine/passes/plan_smp.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/passes/op_planner.h"
#include "engine/passes/smp_modules.h"

namespace trainyard {

namespace {

/// A graph in which a transformer's ops read what comes from outside by way of one view each: there
/// it is gathered once, whatever number of them read it.
class EntryViews {
 public:
  EntryViews(Graph graph, const SmpModules& modules, const SmpPlan& plan)
      : in_(std::move(graph.ops)),
        modules_(modules),
        any_(plan.enters_once),
        every_(plan.config.optimize == SmpConfig::Optimize::kMemory) {
    graph.ops = {};
    out_ = std::move(graph);
    made_by_.assign(out_.tensors.size(), -1);
    entry_.assign(out_.tensors.size(), false);
    for (const OpId id : in_.keys()) {
      for (const TensorId output : in_[id].outputs) made_by_[output] = modules_.of_op[id];
      for (const TensorId input : in_[id].inputs) ++uses_[{input, modules_.of_op[id]}];
    }
  }

  void run() {
    for (const OpId id : in_.keys()) {
      Op& op = in_[id];
      const int module = modules_.of_op[id];
      if (any_ && is_transformer(module)) {
        for (TensorId& input : op.inputs) input = entered(input, module, op);
      }
      emit(std::move(op), module);
    }
  }

  Graph& graph() { return out_; }
  int made_by(TensorId id) const { return made_by_[id]; }
  bool is_entry(TensorId id) const { return entry_[id]; }
  int of_op(OpId id) const { return of_op_[id]; }

 private:
  bool is_transformer(int module) const {
    return module >= 0 && modules_.modules.begin()[module].kind == SmpKind::kTransformer;
  }

  TensorId entered(TensorId x, int module, const Op& reader) {
    const Tensor& t = out_.tensors[x];
    const bool outside = t.role == TensorRole::kInput ||
                         (t.role == TensorRole::kActivation && made_by_[x] != module);
    if (!outside || t.constant || t.shape.size() < 2) return x;
    const bool of_features = every_ && t.needs_gradient;
    if (!of_features && uses_[{x, module}] < 2) return x;
    const auto [known, fresh] = views_.try_emplace({x, module}, x);
    if (!fresh) return known->second;
    Tensor view = t;
    const int before = copies_[x]++;
    view.name += ".of_group" + (before > 0 ? ":" + std::to_string(before) : "");
    view.role = TensorRole::kActivation;
    view.alias = x;
    view.alias_offset = 0;
    Op op;
    op.kind = OpKind::kView;
    op.module = reader.module;
    op.layer = reader.layer;
    op.sublayer = reader.sublayer;
    op.inputs = {x};
    op.outputs = {out_.tensors.add(std::move(view))};
    known->second = op.outputs[0];
    made_by_.push_back(module);
    entry_.push_back(true);
    emit(std::move(op), module);
    return known->second;
  }

  void emit(Op op, int module) {
    for (const TensorId output : op.outputs) out_.tensors[output].producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
    of_op_.push_back(module);
  }

  Indexed<OpId, Op> in_;
  const SmpModules& modules_;
  bool any_;
  bool every_;  // of features, those with one reader, too
  Graph out_;
  Indexed<TensorId, int> made_by_;  // index into modules; -1: outside
  Indexed<TensorId, bool> entry_;
  Indexed<OpId, int> of_op_;
  std::map<std::pair<TensorId, int>, int> uses_;
  std::map<std::pair<TensorId, int>, TensorId> views_;
  std::map<TensorId, int> copies_;
};

class SmpRules {
 public:
  SmpRules(const EntryViews& views, const Graph& graph, const SmpModules& modules,
           const SmpPlan& plan)
      : plan_(plan),
        ranks_(group_size(plan.mesh, plan.tensor)),
        memory_(plan.config.optimize == SmpConfig::Optimize::kMemory) {
    const auto kind = [&](int module) {
      return module < 0 ? SmpKind::kNone : modules.modules.begin()[module].kind;
    };
    made_in_.assign(graph.tensors.size(), SmpKind::kNone);
    entry_.assign(graph.tensors.size(), false);
    leaves_.assign(graph.tensors.size(), false);
    batched_.assign(graph.tensors.size(), false);
    Indexed<TensorId, bool> stays = entry_;
    for (const TensorId id : graph.tensors.keys()) {
      made_in_[id] = kind(views.made_by(id));
      entry_[id] = views.is_entry(id);
      batched_[id] = graph.tensors[id].role == TensorRole::kInput && !graph.tensors[id].constant;
    }
    for (const OpId id : graph.ops.keys()) {
      const Op& op = graph.ops[id];
      const bool batched = std::any_of(op.inputs.begin(), op.inputs.end(),
                                       [&](TensorId input) { return batched_[input]; });
      for (const TensorId output : op.outputs) batched_[output] = batched;
      for (const TensorId input : op.inputs) {
        const bool inside =
            made_in_[input] == SmpKind::kTransformer && views.of_op(id) == views.made_by(input);
        (inside ? stays : leaves_)[input] = true;
      }
    }
    for (const TensorId id : graph.tensors.keys()) leaves_[id] = leaves_[id] && !stays[id];
  }

  Axes sample_axes() const { return plan_.config.prescaled_batch ? Axes{} : plan_.tensor; }
  bool by_samples(const Op& op) const { return kind_of(op.outputs[0]) == SmpKind::kNone; }
  int mark(TensorId id) const {
    const int flags = is(leaves_, id) ? 1 : 0;
    return static_cast<int>(kind_of(id)) * 4 + (is(entry_, id) ? 2 : 0) + flags;
  }
  bool norms_by_moments() const { return memory_; }

  std::vector<IndexSplit> splits(const PlannedOps& planned, const Op& op,
                                 const IndexSpace& space) const {
    const auto along = [&](const char* index) {
      return std::vector<IndexSplit>{{index_named(space, index), plan_.tensor}};
    };
    switch (kind_of(op.outputs[0])) {
      case SmpKind::kNone: return {};
      case SmpKind::kLinear: return along("i");
      case SmpKind::kEmbedding: return along("h");
      case SmpKind::kTransformer: break;
    }
    if (op.kind == OpKind::kLinear && memory_) return along("i");
    if (op.kind == OpKind::kEmbedding && memory_) return along("h");
    if (op.kind == OpKind::kRelativeBias) return along("n");
    const bool of_weight = op.kind == OpKind::kLinear || op.kind == OpKind::kEmbedding;
    switch (of_weight ? planned.hint(op.inputs[1]) : SplitHint::kNone) {
      case SplitHint::kColumn: return along("o");
      case SplitHint::kRow: return along("i");
      case SplitHint::kVocabulary: return along(op.kind == OpKind::kLinear ? "o" : "v");
      default: break;
    }
    if (of_weight) return {};
    if (op.attrs->heads > 0) return along("g");
    if (is(entry_, op.outputs[0])) return entry_split(planned, op, space);
    return as_an_operand_lies(planned, op, space);
  }

  TensorSpec stored(const PlannedOps& planned, const Op& op, std::size_t result,
                    MadeSpec made) const {
    const TensorId id = op.outputs.begin()[result];
    if (is(leaves_, id)) return given_back(std::move(made.spec), batched_[id]);
    if (memory_ && made.summed != 0 && op.kind == OpKind::kLinear)
      made.spec.dims.back() = features_of(planned, op, made.spec.dims.back());
    return std::move(made.spec);
  }

 private:
  static bool is(const Indexed<TensorId, bool>& flags, TensorId id) {
    return id.number() < std::ssize(flags) && flags[id];
  }
  /// In what a result is made; what a loss over a split vocabulary is expanded to is inside.
  SmpKind kind_of(TensorId id) const {
    return id.number() < std::ssize(made_in_) ? made_in_[id] : SmpKind::kTransformer;
  }

  /// To the ranks whose samples they are.
  TensorSpec given_back(TensorSpec spec, bool batched) const {
    for (DimSplit& dim : spec.dims) {
      if ((axes_in(dim) & set_of(plan_.tensor)) == 0) continue;
      Axes kept;
      for (const AxisId axis : dim.parts.front().axes) {
        if (!has(set_of(plan_.tensor), axis)) kept.push_back(axis);
      }
      dim = split_over(kept);
    }
    spec.entered = static_cast<AxisSet>(spec.entered & ~set_of(plan_.tensor));
    if (plan_.config.prescaled_batch || !batched) return spec;
    Axes rows = plan_.data;
    rows.insert(rows.end(), plan_.tensor.begin(), plan_.tensor.end());
    spec.dims.front() = split_over(rows);
    return spec;
  }

  /// A slice of each part of the outputs (query, key, value), where the ranks divide them; else the
  /// summands are added up.
  DimSplit features_of(const PlannedOps& planned, const Op& op, DimSplit whole) const {
    const ParameterId weight = planned.tensor(op.inputs[1]).parameter;
    const auto& parts = planned.graph.parameters[weight].parts;
    const std::int64_t extent = planned.tensor(op.outputs[0]).shape.back();
    if (parts.size() < 2) return extent % ranks_ == 0 ? split_over(plan_.tensor) : whole;
    DimSplit out;
    out.parts.clear();
    for (const ParameterPart& part : parts) {
      if (part.rows % ranks_ != 0) return whole;
      out.parts.push_back({part.rows, 1, plan_.tensor, false});
    }
    return out;
  }

  std::vector<IndexSplit> entry_split(const PlannedOps& planned, const Op& op,
                                      const IndexSpace& space) const {
    const Tensor& t = planned.tensor(op.outputs[0]);
    if (!memory_ || !t.needs_gradient || t.shape.back() % ranks_ != 0) return {};
    return {{index_of_dim(space.results[0], static_cast<int>(t.shape.size()) - 1), plan_.tensor}};
  }

  /// Each element or row by itself, as the first operand lies whose features are split.
  std::vector<IndexSplit> as_an_operand_lies(const PlannedOps& planned, const Op& op,
                                             const IndexSpace& space) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (planned.is_parameter(op.inputs[i])) continue;
      const auto split = dim_split_over(planned.spec(op.inputs[i]), set_of(plan_.tensor));
      // By samples: what comes from outside.
      if (!split || split->dim == 0) continue;
      const int index = index_of_dim(space.operands[i], split->dim);
      if (space.indices[index].use == IndexUse::kFree) return {{index, plan_.tensor}};
    }
    return {};
  }

  const SmpPlan& plan_;
  std::int64_t ranks_;
  bool memory_;
  Indexed<TensorId, SmpKind> made_in_;
  Indexed<TensorId, bool> entry_;   // of what is gathered for a transformer
  Indexed<TensorId, bool> leaves_;  // read outside of the module that makes it, and not in it
  Indexed<TensorId, bool> batched_;
};

}  // namespace

MethodProblem check_smp(const Plan& plan) {
  const ParallelConfig& parallel = plan.parallel;
  const bool divides =
      plan.model.family == Family::kNcf || plan.model.hidden % parallel.tensor == 0;
  if (parallel.smp.optimize != SmpConfig::Optimize::kMemory || divides) return std::nullopt;
  return Infeasible{std::to_string(parallel.tensor) + " ranks do not divide model.hidden " +
                        std::to_string(plan.model.hidden) +
                        ", which method smp splits between ops; write {name: smp, optimize: "
                        "speed}, or another degree",
                    "parallel.tensor"};
}

std::variant<PlannedGraph, Infeasible> plan_smp(Graph graph, const SmpPlan& plan) {
  const SmpModules modules = smp_modules(graph, plan.modules);
  const bool any = std::any_of(modules.modules.begin(), modules.modules.end(),
                               [](const SmpModule& module) { return module.broken == 0; });
  if (!any) {
    return Infeasible{
        "method smp distributes no module that is chosen; `solve` says of each why "
        "not (problem tensor-plan)",
        "parallel.tensor_modules"};
  }
  EntryViews views(std::move(graph), modules, plan);
  views.run();
  const SmpRules rules(views, views.graph(), modules, plan);
  Sharding sharding;
  sharding.mesh = plan.mesh;
  sharding.late = set_of(plan.data);
  return plan_ops(std::move(views.graph()), std::move(sharding),
                  {plan.data, plan.tensor, rules.norms_by_moments(),
                   [&](TensorId id) { return rules.mark(id); },
                   [&](const PlannedOps& planned, const Op& op, const IndexSpace& space) {
                     return rules.splits(planned, op, space);
                   },
                   [&](const PlannedOps& planned, const Op& op, std::size_t result, MadeSpec made) {
                     return rules.stored(planned, op, result, std::move(made));
                   },
                   rules.sample_axes(), [&](const Op& op) { return rules.by_samples(op); }});
}

}  // namespace trainyard
