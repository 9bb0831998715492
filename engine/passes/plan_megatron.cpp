#include "engine/passes/plan_megatron.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/graph/op_space.h"
#include "engine/passes/attention_blocks.h"
#include "engine/passes/plan_mesh.h"
#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

constexpr int kSequenceDim = 1;  // of [B, S, D]

class MegatronPlanner {
 public:
  MegatronPlanner(Graph graph, const MegatronPlan& plan)
      : in_(std::move(graph.ops)),
        plan_(plan),
        tensor_axes_(set_of(plan.tensor)),
        degree_(group_size(plan.mesh, plan.tensor)),
        sequence_(plan.sequence_parallel && degree_ > 1),
        context_ranks_(group_size(plan.mesh, plan.context)),
        exchanges_heads_(plan.context_config.method == ContextConfig::Method::kUlysses) {
    graph.ops = {};
    out_.graph = std::move(graph);
    out_.graph.ops.reserve(in_.size() + 2);
    out_.sharding.mesh = plan.mesh;
    out_.sharding.late = set_of(plan.data);
    if (plan.context_config.balance == ContextConfig::Balance::kZigZag)
      out_.sharding.zig_zag = set_of(plan.context);
    out_.sharding.stored.assign(out_.graph.tensors.size(), kNoIndex);
  }

  std::variant<PlannedGraph, Infeasible> run() {
    for (const TensorId id : out_.graph.tensors.keys()) {
      if (tensor(id).role == TensorRole::kInput) store(id, batch_spec(id));
    }
    for (Op& op : in_) {
      if (expands(op)) {
        add_expanded(op);
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
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }
  bool is_parameter(TensorId id) { return tensor(id).role == TensorRole::kParameter; }
  const TensorSpec& spec(TensorId id) const {
    return out_.sharding.specs[out_.sharding.stored[id]];
  }
  void store(TensorId id, const TensorSpec& spec) {
    out_.sharding.stored[id] = out_.sharding.specs.add(spec);
  }

  TensorSpec batch_spec(TensorId id) {
    TensorSpec out = replicated_spec(tensor(id).shape.size());
    if (!tensor(id).constant) out.dims[0] = split_over(plan_.data);
    return normal_form(out, tensor(id).shape);
  }
  TensorSpec normal_form(const TensorSpec& spec, const Shape& shape) const {
    return trainyard::normal_form(spec, global_extents(shape, spec, out_.sharding), plan_.mesh);
  }

  /// The dim of an activation that tensor parallelism splits; -1: none.
  int tensor_dim(TensorId id) {
    if (degree_ == 1 || is_parameter(id)) return -1;
    return dim_of(spec(id), plan_.tensor.front()).value_or(-1);
  }
  SplitHint hint(TensorId id) {
    const ParameterId parameter = tensor(id).parameter;
    return parameter == kNoIndex ? SplitHint::kNone : out_.graph.parameters[parameter].split;
  }

  // --- an op's strategy ---

  static int index_named(const IndexSpace& space, std::string_view name) {
    for (std::size_t i = 0; i < space.indices.size(); ++i) {
      if (space.indices[static_cast<std::int64_t>(i)].name == name) return static_cast<int>(i);
    }
    bug("an index space without index " + std::string(name));
  }
  /// The outermost index of a dim.
  static int index_of_dim(const IndexedTensor& operand, int dim) {
    return operand.dims[static_cast<std::size_t>(dim)].front().indices.front();
  }

  /// Which index tensor parallelism splits; nullopt: all its ranks do the same.
  std::optional<int> tensor_index(const Op& op, const IndexSpace& space) {
    if (degree_ == 1) return std::nullopt;
    if (op.kind == OpKind::kLinear) {
      const SplitHint split = hint(op.inputs[1]);
      if (split == SplitHint::kColumn || split == SplitHint::kVocabulary)
        return index_named(space, "o");
      if (split == SplitHint::kRow) return index_named(space, "i");
    }
    if (op.kind == OpKind::kEmbedding) {
      if (hint(op.inputs[1]) == SplitHint::kVocabulary) return index_named(space, "v");
      // Look up only the own positions: the token ids are sliced, not the rows. A class token, of
      // which a sequence has one, is every rank's.
      const Shape& rows = tensor(op.outputs[0]).shape;
      if (sequence_ && rows.size() == 3 && rows[kSequenceDim] > 1)
        return index_of_dim(space.operands[0], kSequenceDim);
      return std::nullopt;
    }
    if (op.kind == OpKind::kRelativeBias) return index_named(space, "n");
    if (op.kind == OpKind::kSelectFirst) return std::nullopt;
    // Each element, row or head by itself, as the first operand lies that is split.
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const int dim = tensor_dim(op.inputs[i]);
      if (dim < 0) continue;
      const int index = index_of_dim(space.operands[i], dim);
      if (space.indices[index].use == IndexUse::kFree) return index;
    }
    return std::nullopt;
  }

  /// Which index context parallelism splits: tokens, but heads in attention that exchanged them.
  std::optional<int> context_index(const Op& op, const IndexSpace& space) {
    if (context_ranks_ == 1) return std::nullopt;
    const bool of_heads = op.attrs.heads > 0 && op.kind != OpKind::kRope &&
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
    return out_.sharding.zig_zag != 0 ? zig_zag_split(axes, extent) : split_over(axes);
  }

  /// The rows of the batch; nothing batched: summands are passed on, or all is entered.
  void split_batch(const Op& op, const IndexSpace& space, Strategy& strategy) {
    const AxisSet data = set_of(plan_.data);
    if (group_size(plan_.mesh, plan_.data) == 1) return;
    bool partial = false;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (is_parameter(op.inputs[i])) continue;
      const TensorSpec& of = spec(op.inputs[i]);
      partial = partial || (of.partial & data) == data;
      const auto dim = dim_of(of, plan_.data.front());
      if (!dim) continue;
      strategy.split.push_back({index_of_dim(space.operands[i], *dim), plan_.data});
      return;
    }
    (partial ? strategy.passed : strategy.entered) = data;
  }

  Strategy strategy_of(const Op& op, const IndexSpace& space) {
    Strategy strategy;
    split_batch(op, space, strategy);
    const auto tensor = tensor_index(op, space), context = context_index(op, space);
    if (tensor && tensor == context) {
      const bool tokens = space.indices[*tensor].name != "g";
      Axes axes = tokens ? tokens_over(plan_.tensor) : plan_.tensor;
      if (!tokens) axes.insert(axes.end(), plan_.context.begin(), plan_.context.end());
      strategy.split.push_back({*tensor, axes});
    } else {
      if (tensor) strategy.split.push_back({*tensor, plan_.tensor});
      if (context) strategy.split.push_back({*context, plan_.context});
    }
    std::sort(strategy.split.begin(), strategy.split.end(),
              [](const IndexSplit& a, const IndexSplit& b) { return a.index < b.index; });
    return strategy;
  }

  // --- what follows from it ---

  /// An op's split, and the specs with which it finds and leaves tensors that are stored first
  /// here.
  struct KnownOp {
    SplitId split;
    std::vector<SpecId> parameters;  // [input]: as it is stored from here on
    std::vector<SpecId> results;     // [output]
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
      tensor(op.outputs[i]).producer = out_.graph.ops.next();
    }
    out_.graph.ops.push_back(std::move(op));
    out_.sharding.ops.push_back(known->split);
  }

  /// Layers repeat: what an op's split depends on. nullptr: it does not split so (problem_).
  const KnownOp* find(const Op& op) {
    std::string key;
    const auto add_number = [&](std::int64_t number) {
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    const OpAttrs& attrs = op.attrs;
    for (const std::int64_t number :
         {static_cast<std::int64_t>(op.kind), std::int64_t{attrs.heads},
          std::int64_t{attrs.kv_heads}, std::int64_t{attrs.head_dim}, std::int64_t{attrs.packed},
          std::int64_t{attrs.has_mask}, std::int64_t{attrs.has_bias}, std::int64_t{attrs.groups},
          std::int64_t{attrs.samples}, std::int64_t{attrs.dim}, std::int64_t{attrs.ring},
          static_cast<std::int64_t>(attrs.dims.size()), std::int64_t{attrs.shift == 0}})
      add_number(number);
    for (const int dim : attrs.dims) add_number(dim);
    for (const TensorId id : op.inputs) {
      add_number(is_parameter(id));
      add_number(out_.sharding.stored[id].number());
      add_number(static_cast<std::int64_t>(hint(id)));
      if (tensor(id).parameter != kNoIndex) {
        for (const ParameterPart& part : out_.graph.parameters[tensor(id).parameter].parts)
          add_number(-part.rows);
      }
      for (const std::int64_t extent : tensor(id).shape) add_number(extent);
    }
    for (const TensorId id : op.outputs) {
      add_number(tensor(id).needs_gradient);
      for (const std::int64_t extent : tensor(id).shape) add_number(extent);
    }
    const auto [it, fresh] = known_.try_emplace(std::move(key));
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
    if (auto* reason = std::get_if<Infeasible>(&space)) return refuse(at(op, *reason));
    const Strategy strategy = strategy_of(op, std::get<IndexSpace>(space));
    auto split = split_op(out_.graph, op, std::get<IndexSpace>(space), strategy, out_.sharding);
    if (auto* reason = std::get_if<Infeasible>(&split)) return refuse(at(op, *reason));
    KnownOp known{out_.sharding.splits.add(std::get<SplitOp>(std::move(split))), {}, {}};
    const SplitOp& made = out_.sharding.splits[known.split];
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      TensorSpec used = out_.sharding.specs[made.operands[i]];
      const SpecId before = out_.sharding.stored[op.inputs[i]];
      // Stored as it is first used; what differs by rank there is its gradient alone.
      used.entered = used.partial = 0;
      known.parameters.push_back(before == kNoIndex ? out_.sharding.specs.add(used) : before);
      check_division(op, op.inputs[i], known.parameters[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      known.results.push_back(stored(op, i, out_.sharding.specs[made.results[i]]));
      check_division(op, op.outputs[i], known.results[i]);
    }
    return known;
  }

  /// Summands of tensor parallelism are added up at once, or scattered over the sequence.
  SpecId stored(const Op& op, std::size_t result, TensorSpec spec) {
    const Tensor& t = tensor(op.outputs[result]);
    if ((spec.partial & tensor_axes_) != 0) {
      spec.partial = static_cast<AxisSet>(spec.partial & ~tensor_axes_);
      spec.maximum = spec.maximum && spec.partial != 0;
      if (sequence_ && t.needs_gradient) {
        spec.dims[kSequenceDim] = split_sequence(tokens_over(plan_.tensor), t.shape[kSequenceDim]);
        spec = normal_form(spec, t.shape);
      }
    }
    return out_.sharding.specs.add(spec);
  }

  void check_division(const Op& op, TensorId id, SpecId spec) {
    const Tensor& t = tensor(id);
    const auto shape = local_shape(t.name, t.shape, out_.sharding.specs[spec], out_.sharding);
    const auto* reason = std::get_if<Infeasible>(&shape);
    if (reason == nullptr) return;
    const OpAttrs& attrs = op.attrs;
    if (attrs.heads == 0 || op.kind == OpKind::kRelativeBias) {
      refuse(*reason);
      return;
    }
    refuse({tensor(op.outputs[0]).name + ": tensor parallelism over " + std::to_string(degree_) +
            " ranks does not divide " + std::to_string(attrs.heads) + " heads and " +
            std::to_string(attrs.kv_heads) + " key-value heads"});
  }

  KnownOp refuse(const Infeasible& reason) {
    if (!problem_) problem_ = Infeasible{reason.reason, "parallel.tensor"};
    return {};
  }

  /// Keys and values lie as they did, on another rank.
  void add_shift(Op op) {
    const SpecId stored = out_.sharding.stored[op.inputs[0]];
    out_.sharding.stored[op.outputs[0]] = stored;
    tensor(op.outputs[0]).producer = out_.graph.ops.next();
    out_.graph.ops.push_back(std::move(op));
    out_.sharding.ops.push_back(out_.sharding.splits.add(SplitOp{{}, {stored}, {stored}, 0, 0}));
  }

  // --- cross entropy over a split vocabulary ---

  bool expands(const Op& op) {
    if (op.kind != OpKind::kCrossEntropy) return false;
    const int dim = tensor_dim(op.inputs[0]);
    return dim >= 0 && dim + 1 == static_cast<int>(tensor(op.inputs[0]).shape.size());
  }

  TensorId statistic(TensorId logits, std::string_view name, const Shape& shape) {
    Tensor t = tensor(logits);
    t.name += "." + std::string(name);
    t.shape = shape;
    t.dtype = accumulation_type(t.dtype);
    t.alias = kNoIndex;
    t.needs_gradient = false;
    out_.sharding.stored.push_back(kNoIndex);
    return out_.graph.tensors.add(std::move(t));
  }

  /// Largest logits, then sums of exponentials and the label's logit, then the loss.
  void add_expanded(const Op& origin) {
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

  Indexed<OpId, Op> in_;
  const MegatronPlan& plan_;
  AxisSet tensor_axes_;
  std::int64_t degree_;
  bool sequence_;
  std::int64_t context_ranks_;
  bool exchanges_heads_;
  PlannedGraph out_;
  std::unordered_map<std::string, KnownOp> known_;
  std::optional<Infeasible> problem_;
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
  return plan;
}

std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan) {
  const ContextConfig& context = plan.context_config;
  if (context.degree > 1 && context.method != ContextConfig::Method::kUlysses)
    graph = with_attention_blocks(std::move(graph), context);
  return MegatronPlanner(std::move(graph), plan).run();
}

}  // namespace trainyard
