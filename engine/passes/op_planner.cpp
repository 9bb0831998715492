#include "engine/passes/op_planner.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/graph/op_space.h"
#include "engine/graph/op_table.h"
#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

class OpPlanner {
 public:
  OpPlanner(Graph graph, Sharding sharding, const SplitRules& rules)
      : in_(std::move(graph.ops)),
        rules_(rules),
        tensor_axes_(set_of(rules.tensor)) {
    graph.ops = {};
    out_.graph = std::move(graph);
    out_.graph.ops.reserve(in_.size() + 2);
    out_.sharding = std::move(sharding);
    out_.sharding.stored.assign(out_.graph.tensors.size(), kNoIndex);
    degree_ = group_size(mesh(), rules.tensor);
  }

  std::variant<PlannedGraph, Infeasible> run() {
    for (const TensorId id : out_.graph.tensors.keys()) {
      const bool input = tensor(id).role == TensorRole::kInput;
      if (input) store(id, batch_spec(id));
      batch_dim_.push_back(input && !tensor(id).constant ? 0 : -1);
    }
    for (Op& op : in_) {
      if (op.kind == OpKind::kCrossEntropy && splits_last_dim(op.inputs[0])) {
        add_loss(op);
      } else if (norm_by_moments(op)) {
        add_norm(op);
      } else if (op.kind == OpKind::kRingShift) {
        add_shift(std::move(op));
      } else {
        add(std::move(op));
      }
      if (problem_) return *problem_;
    }
    return std::move(out_);
  }

 private:
  bool norm_by_moments(const Op& op) {
    const bool norm = op.kind == OpKind::kLayerNorm || op.kind == OpKind::kRmsNorm;
    return norm && rules_.norms_by_moments && op.attrs->groups == 1 &&
           splits_last_dim(op.inputs[0]) && !has_own_samples(op);
  }
  /// Whether ranks along tensor axes compute samples of their own.
  bool has_own_samples(const Op& op) const {
    return !rules_.sample_axes.empty() && rules_.by_samples(op);
  }
  Axes with_sample_axes() const {
    Axes axes = rules_.data;
    axes.insert(axes.end(), rules_.sample_axes.begin(), rules_.sample_axes.end());
    return axes;
  }
  const DeviceMesh& mesh() const { return out_.sharding.mesh; }
  PlannedOps planned() const { return {out_.graph, out_.sharding, batch_dim_}; }
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }
  bool is_parameter(TensorId id) const { return planned().is_parameter(id); }
  const TensorSpec& spec(TensorId id) const { return planned().spec(id); }
  void store(TensorId id, const TensorSpec& spec) {
    out_.sharding.stored[id] = out_.sharding.specs.add(spec);
  }

  TensorSpec batch_spec(TensorId id) {
    TensorSpec out = replicated_spec(tensor(id).shape.size());
    if (!tensor(id).constant) out.dims[0] = split_over(with_sample_axes());
    return normal_form(out, tensor(id).shape);
  }
  TensorSpec normal_form(const TensorSpec& spec, const Shape& shape) const {
    return trainyard::normal_form(spec, global_extents(shape, spec, out_.sharding), mesh());
  }

  bool splits_last_dim(TensorId id) {
    if (rules_.several_dims) return (axes_in(spec(id).dims.back()) & tensor_axes_) != 0;
    const auto split = dim_split_over(spec(id), tensor_axes_);
    return split && split->dim + 1 == static_cast<int>(tensor(id).shape.size());
  }

  // --- an op's strategy ---

  /// The index of the batch; -1: nothing is batched.
  int batch_index(const Op& op, const IndexSpace& space) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const int dim = batch_dim_[op.inputs[i]];
      if (dim < 0) continue;
      const auto& indices = space.operands[i].dims.begin()[dim].front().indices;
      if (!indices.empty()) return indices.front();
    }
    return -1;
  }

  Axes batch_axes(const Op& op) const {
    Axes axes = has_own_samples(op) ? with_sample_axes() : rules_.data;
    if (!rules_.batch) return axes;
    const Axes more = rules_.batch(planned(), op);
    axes.insert(axes.end(), more.begin(), more.end());
    return axes;
  }

  /// The rows of the batch; nothing batched: summands are passed on, or all is entered.
  void split_batch(const Op& op, const IndexSpace& space, Strategy& strategy) {
    const Axes axes = batch_axes(op);
    if (group_size(mesh(), axes) == 1) return;
    if (const int index = batch_index(op, space); index >= 0) {
      strategy.split.push_back({index, axes});
      return;
    }
    const AxisSet all = set_of(axes);
    const bool partial = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      return !is_parameter(input) && (spec(input).partial & all) == all;
    });
    (partial ? strategy.passed : strategy.entered) = all;
  }

  /// The dims of its results that the batch's index runs over.
  std::vector<int> batch_dims(const Op& op, const IndexSpace& space) const {
    const int index = batch_index(op, space);
    std::vector<int> out;
    for (const IndexedTensor& result : space.results) {
      const auto at = std::ranges::find_if(result.dims, [&](const IndexedDim& dim) {
        return !dim.front().indices.empty() && dim.front().indices.front() == index;
      });
      out.push_back(at == result.dims.end() ? -1 : static_cast<int>(at - result.dims.begin()));
    }
    return out;
  }

  Strategy strategy_of(const Op& op, const IndexSpace& space) {
    Strategy strategy;
    split_batch(op, space, strategy);
    for (IndexSplit& split : rules_.splits(planned(), op, space))
      strategy.split.push_back(std::move(split));
    auto& split = strategy.split;
    std::ranges::stable_sort(split, {}, &IndexSplit::index);
    for (std::size_t i = split.size(); i-- > 1;) {
      if (split[i].index != split[i - 1].index) continue;
      split[i - 1].axes.insert(split[i - 1].axes.end(), split[i].axes.begin(), split[i].axes.end());
      split.erase(split.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return strategy;
  }

  // --- what follows from it ---

  /// An op's split, and the specs with which it finds and leaves tensors that are stored first
  /// here.
  struct KnownOp {
    SplitId split;
    std::vector<SpecId> parameters;  // [input]: as it is stored from here on
    std::vector<SpecId> results;     // [output]
    std::vector<int> batch_dims;     // [output]
  };

  void add(Op op) {
    const KnownOp* known = find(op);
    if (known == nullptr) return;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      SpecId& stored = out_.sharding.stored[op.inputs[i]];
      if (stored == kNoIndex) stored = known->parameters[i];
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      out_.sharding.stored[op.outputs[i]] = known->results[i];
      batch_dim_[op.outputs[i]] = known->batch_dims[i];
      tensor(op.outputs[i]).producer = out_.graph.ops.next();
    }
    out_.graph.ops.push_back(std::move(op));
    out_.sharding.ops.push_back(known->split);
  }

  /// Layers repeat: what an op's split depends on. nullptr: it does not split so (problem_).
  const KnownOp* find(const Op& op) {
    key_.clear();
    const auto add_number = [&](std::int64_t number) {
      key_.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    const OpAttrs& attrs = op.attrs;
    for (const std::int64_t number :
         {static_cast<std::int64_t>(op.kind), std::int64_t{attrs.heads},
          std::int64_t{attrs.kv_heads}, std::int64_t{attrs.head_dim}, std::int64_t{attrs.packed},
          std::int64_t{attrs.has_mask}, std::int64_t{attrs.has_bias}, std::int64_t{attrs.groups},
          std::int64_t{attrs.samples}, std::int64_t{attrs.dim}, std::int64_t{attrs.ring},
          std::int64_t{attrs.states}, static_cast<std::int64_t>(attrs.dims.size()),
          std::int64_t{attrs.shift == 0}})
      add_number(number);
    for (const int dim : attrs.dims) add_number(dim);
    for (const TensorId id : op.inputs) {
      add_number(is_parameter(id));
      add_number(batch_dim_[id]);
      add_number(out_.sharding.stored[id].number());
      add_number(static_cast<std::int64_t>(planned().hint(id)));
      if (tensor(id).parameter != kNoIndex) {
        for (const ParameterPart& part : out_.graph.parameters[tensor(id).parameter].parts)
          add_number(-part.rows);
      }
      for (const std::int64_t extent : tensor(id).shape) add_number(extent);
    }
    for (const TensorId id : op.outputs) {
      add_number(tensor(id).needs_gradient);
      add_number(rules_.mark(id));
      for (const std::int64_t extent : tensor(id).shape) add_number(extent);
    }
    const auto [it, fresh] = known_.try_emplace(key_);
    if (fresh) it->second = split_anew(op);
    return problem_ ? nullptr : &it->second;
  }

  Infeasible at(const Op& op, Infeasible reason) const {
    reason.reason = out_.graph.modules[op.module] + " (" + std::string(to_string(op.kind)) +
                    "): " + reason.reason;
    return reason;
  }

  KnownOp split_anew(const Op& op) {
    std::vector<Extents> operands;
    for (const TensorId input : op.inputs) {
      const Shape& shape = tensor(input).shape;
      operands.push_back(is_parameter(input) ? Extents(shape.begin(), shape.end())
                                             : global_extents(shape, spec(input), out_.sharding));
    }
    auto space = op_space(out_.graph, op, operands);
    if (auto* reason = std::get_if<Infeasible>(&space)) return refuse(op, at(op, *reason));
    const Strategy strategy = strategy_of(op, std::get<IndexSpace>(space));
    auto split = split_op(out_.graph, op, std::get<IndexSpace>(space), strategy, out_.sharding);
    if (auto* reason = std::get_if<Infeasible>(&split)) return refuse(op, at(op, *reason));
    KnownOp known{out_.sharding.splits.add(std::get<SplitOp>(std::move(split))), {}, {}, {}};
    known.batch_dims = batch_dims(op, std::get<IndexSpace>(space));
    const SplitOp& made = out_.sharding.splits[known.split];
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      known.results.push_back(stored(op, i, out_.sharding.specs[made.results[i]]));
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const SpecId before = out_.sharding.stored[op.inputs[i]];
      known.parameters.push_back(before == kNoIndex ? first_stored(op, i, known) : before);
      check_division(op, op.inputs[i], known.parameters[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      check_division(op, op.outputs[i], known.results[i]);
    return known;
  }

  /// A parameter as it is first used; what differs by rank there is its gradient alone. The bias of
  /// a linear whose summands are added up at once is added to the sum.
  SpecId first_stored(const Op& op, std::size_t input, const KnownOp& known) {
    const SplitOp& made = out_.sharding.splits[known.split];
    TensorSpec used = out_.sharding.specs[made.operands[input]];
    if (op.kind == OpKind::kLinear && input == 2) {
      const TensorSpec& sum = out_.sharding.specs[known.results[0]];
      const AxisSet summed = static_cast<AxisSet>(out_.sharding.specs[made.results[0]].partial &
                                                  ~sum.partial & tensor_axes_);
      if (summed != 0) used.dims[0] = sum.dims.back();
    }
    used.entered = used.partial = 0;
    if (rules_.stored_parameter && is_parameter(op.inputs[input])) {
      const TensorSpec kept = rules_.stored_parameter(planned(), op, input, used);
      if (!(kept == used)) used = normal_form(kept, tensor(op.inputs[input]).shape);
    }
    return out_.sharding.specs.add(used);
  }

  SpecId stored(const Op& op, std::size_t result, TensorSpec spec) {
    // Losses of parts of the batch are added up as over the replicas: once, at the step's end.
    const bool is_loss = is_mean_loss(op.kind) || op.kind == OpKind::kCrossEntropy;
    if (is_loss && result == 0) return out_.sharding.specs.add(spec);
    const AxisSet samples = set_of(batch_axes(op));
    const AxisSet summed = static_cast<AxisSet>(spec.partial & tensor_axes_ & ~samples);
    spec.partial = static_cast<AxisSet>(spec.partial & ~summed);
    if (summed != 0) spec.maximum = spec.maximum && spec.partial != 0;
    const TensorSpec kept = rules_.stored(planned(), op, result, {spec, summed});
    const bool same = kept == spec;
    return out_.sharding.specs.add(same ? spec
                                        : normal_form(kept, tensor(op.outputs[result]).shape));
  }

  void check_division(const Op& op, TensorId id, SpecId spec) {
    const Tensor& t = tensor(id);
    const auto shape = local_shape(t.name, t.shape, out_.sharding.specs[spec], out_.sharding);
    const auto* reason = std::get_if<Infeasible>(&shape);
    if (reason == nullptr) return;
    const OpAttrs& attrs = op.attrs;
    if (attrs.heads == 0 || op.kind == OpKind::kRelativeBias) {
      refuse(op, *reason);
      return;
    }
    refuse(op, {tensor(op.outputs[0]).name + ": tensor parallelism over " +
                std::to_string(degree_) + " ranks does not divide " + std::to_string(attrs.heads) +
                " heads and " + std::to_string(attrs.kv_heads) + " key-value heads"});
  }

  KnownOp refuse(const Op& op, const Infeasible& reason) {
    const std::string key = rules_.key ? rules_.key(op) : "parallel.tensor";
    if (!problem_) problem_ = Infeasible{reason.reason, key};
    return {};
  }

  /// Keys and values lie as they did, on another rank.
  void add_shift(Op op) {
    const SpecId stored = out_.sharding.stored[op.inputs[0]];
    out_.sharding.stored[op.outputs[0]] = stored;
    batch_dim_[op.outputs[0]] = batch_dim_[op.inputs[0]];
    tensor(op.outputs[0]).producer = out_.graph.ops.next();
    out_.graph.ops.push_back(std::move(op));
    out_.sharding.ops.push_back(out_.sharding.splits.add(SplitOp{{}, {stored}, {stored}, 0, 0}));
  }

  // --- what is expanded to be split ---

  TensorId statistic(TensorId logits, std::string_view name, const Shape& shape) {
    Tensor t = tensor(logits);
    t.name += "." + std::string(name);
    t.shape = shape;
    t.dtype = accumulation_type(t.dtype);
    t.alias = kNoIndex;
    t.needs_gradient = false;
    out_.sharding.stored.push_back(kNoIndex);
    batch_dim_.push_back(-1);
    return out_.graph.tensors.add(std::move(t));
  }

  /// Largest logits, then sums of exponentials and the label's logit, then the loss.
  void add_loss(const Op& origin) {
    const TensorId logits = origin.inputs[0];
    const TensorId labels = origin.inputs[1];
    Shape rows = tensor(logits).shape;
    rows.pop_back();
    Shape pair = {2};
    for (const std::int64_t extent : rows) pair.push_back(extent);
    const TensorId max = statistic(logits, "max.all", rows);
    const TensorId sums = statistic(logits, "sums.all", pair);
    Op op = origin;
    op.kind = OpKind::kCrossEntropyMax;
    op.inputs = {logits};
    op.outputs = {max};
    add(op);
    op.kind = OpKind::kCrossEntropySum;
    op.inputs = {logits, labels, max};
    op.outputs = {sums};
    if (!problem_) add(op);
    op = origin;
    op.inputs = {logits, labels, max, sums};
    if (!problem_) add(op);
  }

  /// Sums, squares and the number of features; then y of them.
  void add_norm(const Op& origin) {
    Op op = origin;
    op.kind = OpKind::kNormMoments;
    op.inputs = {origin.inputs[0]};
    op.outputs = {origin.outputs[1]};
    Tensor& moments = tensor(op.outputs[0]);
    moments.name = out_.graph.modules[origin.module] + ".moments";
    moments.shape.back() = origin.kind == OpKind::kRmsNorm ? 2 : 3;
    moments.needs_gradient = tensor(origin.inputs[0]).needs_gradient;
    add(op);
    op = origin;
    op.kind = OpKind::kNormalize;
    op.attrs.set(&OpAttrs::unbiased, op.inputs.size() == 2);
    op.inputs.insert(op.inputs.begin() + 1, origin.outputs[1]);
    op.outputs = {origin.outputs[0]};
    if (!problem_) add(op);
  }

  Indexed<OpId, Op> in_;
  const SplitRules& rules_;
  AxisSet tensor_axes_;
  std::int64_t degree_ = 1;
  PlannedGraph out_;
  Indexed<TensorId, int> batch_dim_;  // -1: none
  std::unordered_map<std::string, KnownOp> known_;
  std::string key_;  // of the op at hand
  std::optional<Infeasible> problem_;
};

}  // namespace

std::variant<PlannedGraph, Infeasible> plan_ops(Graph graph, Sharding sharding,
                                                const SplitRules& rules) {
  return OpPlanner(std::move(graph), std::move(sharding), rules).run();
}

}  // namespace trainyard
