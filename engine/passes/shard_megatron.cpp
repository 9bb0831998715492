#include "engine/passes/shard_megatron.h"

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

constexpr int kSequenceDim = 1;  // of [B, S, D]

struct DoesNotDivide : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class MegatronSharder {
 public:
  MegatronSharder(const Graph& in, int tensor, bool sequence_parallel)
      : in_(in),
        degree_(tensor),
        sequence_(sequence_parallel && tensor > 1) {
    out_ = without_ops(in);
    out_.ops.reserve(in.ops.size() + in.ops.size() / 2);
  }

  Graph run() {
    for (Tensor& tensor : out_.tensors) {
      // The batch is what data parallelism splits; parameters and scalars are the same everywhere.
      const bool batched = tensor.role != TensorRole::kParameter && tensor.shape.size() >= 2;
      if (batched) tensor.spec[Axis::kDp] = shard(0);
    }
    for (const Parameter& parameter : out_.parameters) split_parameter(parameter);
    for (const Op& op : in_.ops) add(op);
    return std::move(out_);
  }

 private:
  Tensor& tensor(TensorId id) { return out_.tensors[id]; }
  const AxisPlacement& placement(TensorId id) { return tensor(id).spec[Axis::kTp]; }
  bool sharded(TensorId id, int dim) { return placement(id) == shard(dim); }
  bool on_sequence(TensorId id) {
    return sequence_ && sharded(id, kSequenceDim) && tensor(id).shape.size() <= 3 &&
           tensor(id).role != TensorRole::kParameter;
  }
  int last_dim(TensorId id) { return static_cast<int>(tensor(id).shape.size()) - 1; }

  void split(TensorId id, int dim) {
    if (degree_ == 1) return;
    Tensor& t = tensor(id);
    std::int64_t& extent = t.shape.begin()[dim];
    if (extent % degree_ != 0) {
      throw DoesNotDivide(t.name + ": tensor parallelism over " + std::to_string(degree_) +
                          " ranks does not divide its dim " + std::to_string(dim) + " of " +
                          std::to_string(extent));
    }
    extent /= degree_;
    t.spec[Axis::kTp] = shard(dim);
    if (dim + 1 == static_cast<int>(t.shape.size())) t.alias_offset /= degree_;
  }

  void split_parameter(const Parameter& parameter) {
    if (parameter.tensor == kNoIndex) return;
    const bool matrix = parameter.padded.size() >= 2;
    switch (parameter.split) {
      case SplitHint::kNone: break;
      case SplitHint::kColumn:
      case SplitHint::kVocabulary: split(parameter.tensor, 0); break;
      case SplitHint::kRow:
        if (matrix) split(parameter.tensor, 1);
        break;
      case SplitHint::kHeads: split(parameter.tensor, 1); break;
    }
  }

  SplitHint hint(TensorId parameter) {
    const ParameterId index = tensor(parameter).parameter;
    return index == kNoIndex ? SplitHint::kNone : out_.parameters[index].split;
  }

  void emit(Op op) {
    for (TensorId output : op.outputs) tensor(output).producer = out_.ops.next();
    // A replicated parameter that meets sequence shards gets only its rank's part of the gradient.
    bool on_shards = false;
    for (TensorId input : op.inputs) on_shards = on_shards || on_sequence(input);
    for (TensorId input : op.inputs) {
      const Tensor& t = tensor(input);
      if (on_shards && t.role == TensorRole::kParameter &&
          t.spec[Axis::kTp].kind == AxisPlacement::Kind::kReplicate) {
        out_.parameters[t.parameter].partial_gradient = true;
      }
    }
    out_.ops.push_back(std::move(op));
  }

  TensorId like(TensorId source, std::string_view suffix, const AxisPlacement& tp) {
    Tensor t = tensor(source);
    t.name += "." + std::string(suffix);
    if (const int copies = ++copies_[t.name]; copies > 1)
      t.name += ":" + std::to_string(copies - 1);
    t.alias = kNoIndex;
    t.spec[Axis::kTp] = tp;
    t.role = TensorRole::kActivation;
    out_.tensors.push_back(std::move(t));
    return TensorId(out_.tensors.size() - 1);
  }

  TensorId communicate(const Op& origin, OpKind kind, TensorId x, std::string_view suffix,
                       const AxisPlacement& to, int dim, bool partial_gradient = false) {
    const TensorId y = like(x, suffix, to);
    Op op;
    op.kind = kind;
    op.attrs.dim = static_cast<std::int8_t>(dim);
    op.attrs.partial_gradient = partial_gradient;
    op.module = origin.module;
    op.layer = origin.layer;
    op.sublayer = origin.sublayer;
    op.inputs = {x};
    op.outputs = {y};
    if (kind == OpKind::kAllGather) tensor(y).shape.begin()[dim] *= degree_;
    if (kind == OpKind::kReduceScatter || kind == OpKind::kSlice) {
      tensor(y).spec[Axis::kTp] = replicate();
      split(y, dim);
    }
    if (kind == OpKind::kAllReduce || kind == OpKind::kEnterTensor)
      tensor(y).alias = x;  // in place
    emit(std::move(op));
    return y;
  }

  /// x as every rank of the group needs it whole, before its features are split.
  TensorId enter(const Op& origin, TensorId x) {
    if (degree_ == 1) return x;
    if (on_sequence(x)) {
      return communicate(origin, OpKind::kAllGather, x, "gathered", replicate(), kSequenceDim,
                         true);
    }
    return communicate(origin, OpKind::kEnterTensor, x, "entered", replicate(), -1);
  }

  /// x whole on every rank, for ops that then do the same thing everywhere.
  TensorId whole(const Op& origin, TensorId x) {
    if (!on_sequence(x)) return x;
    return communicate(origin, OpKind::kAllGather, x, "whole", replicate(), kSequenceDim, false);
  }

  /// The partial sums `x` added up: whole, or each rank its sequence shard.
  void reduce(const Op& origin, TensorId x, TensorId result) {
    tensor(x).spec[Axis::kTp] = partial();
    Op op;
    op.kind = sequence_ ? OpKind::kReduceScatter : OpKind::kAllReduce;
    op.attrs.dim = sequence_ ? kSequenceDim : -1;
    op.module = origin.module;
    op.layer = origin.layer;
    op.sublayer = origin.sublayer;
    op.inputs = {x};
    op.outputs = {result};
    tensor(result).spec[Axis::kTp] = replicate();
    if (sequence_) {
      split(result, kSequenceDim);
    } else {
      tensor(result).alias = x;
    }
    emit(std::move(op));
  }

  void add(const Op& origin) {
    if (degree_ == 1) return emit(origin);
    switch (origin.kind) {
      case OpKind::kLinear: return add_linear(origin);
      case OpKind::kEmbedding: return add_embedding(origin);
      case OpKind::kCrossEntropy: return add_cross_entropy(origin);
      case OpKind::kSelectFirst: {
        Op op = origin;
        op.inputs[0] = whole(origin, op.inputs[0]);
        return emit(std::move(op));
      }
      case OpKind::kRelativeBias: {
        const Op& op = origin;
        split(op.outputs[0], 0);
        return emit(op);
      }
      default: return add_local(origin);
    }
  }

  void add_linear(const Op& origin) {
    const SplitHint split_by = hint(origin.inputs[1]);
    Op op = origin;
    if (split_by == SplitHint::kColumn || split_by == SplitHint::kVocabulary) {
      op.inputs[0] = enter(origin, op.inputs[0]);
      split(op.outputs[0], last_dim(op.outputs[0]));
      return emit(std::move(op));
    }
    if (split_by != SplitHint::kRow) return add_local(origin);
    // Row: the bias is added once, after the sum.
    const TensorId result = op.outputs[0];
    const TensorId bias = op.attrs.has_bias ? op.inputs[2] : kNoIndex;
    if (bias != kNoIndex) op.inputs.pop_back();
    op.attrs.has_bias = false;
    const TensorId part = like(result, "partial", partial());
    op.outputs[0] = part;
    emit(std::move(op));
    if (bias == kNoIndex) return reduce(origin, part, result);
    const TensorId sum = like(result, "sum", replicate());
    reduce(origin, part, sum);
    Op add_bias;
    add_bias.kind = OpKind::kAddBias;
    add_bias.module = origin.module;
    add_bias.layer = origin.layer;
    add_bias.sublayer = origin.sublayer;
    add_bias.inputs = {sum, bias};
    add_bias.outputs = {result};
    tensor(result).shape = tensor(sum).shape;
    tensor(result).spec = tensor(sum).spec;
    emit(std::move(add_bias));
  }

  void add_embedding(const Op& origin) {
    Op op = origin;
    const TensorId result = op.outputs[0];
    if (hint(op.inputs[1]) == SplitHint::kVocabulary) {
      const TensorId part = like(result, "partial", partial());
      op.outputs[0] = part;
      emit(std::move(op));
      return reduce(origin, part, result);
    }
    if (sequence_ && tensor(result).shape.size() == 3) {
      // Look up only the own positions: the token ids are sliced, not the rows.
      op.inputs[0] =
          communicate(origin, OpKind::kSlice, op.inputs[0], "slice", replicate(), kSequenceDim);
      split(result, kSequenceDim);
    }
    emit(std::move(op));
  }

  void add_cross_entropy(const Op& origin) {
    const TensorId logits = origin.inputs[0];
    if (placement(logits).kind != AxisPlacement::Kind::kShard) return emit(origin);
    if (on_sequence(logits)) {
      Op op = origin;
      op.inputs[0] = whole(origin, logits);
      return emit(std::move(op));
    }
    const TensorId labels = origin.inputs[1];
    Shape rows = tensor(logits).shape;
    rows.pop_back();
    const auto statistic = [&](std::string_view name, const Shape& shape) {
      const TensorId id = like(logits, name, partial());
      tensor(id).shape = shape;
      tensor(id).dtype = accumulation_type(tensor(logits).dtype);
      tensor(id).needs_gradient = false;
      return id;
    };
    const auto reduced = [&](TensorId part, std::string_view name) {
      const TensorId id = communicate(origin, OpKind::kAllReduce, part, name, replicate(), -1);
      return id;
    };
    Op op = origin;
    op.kind = OpKind::kCrossEntropyMax;
    op.inputs = {logits};
    op.outputs = {statistic("max", rows)};
    const TensorId part_max = op.outputs[0];
    emit(op);
    const TensorId max = reduced(part_max, "all");
    out_.ops.back().attrs.maximum = true;
    Shape sums_shape = {2};  // sum of exponentials, logit of the label
    for (std::int64_t extent : rows) sums_shape.push_back(extent);
    op.kind = OpKind::kCrossEntropySum;
    op.inputs = {logits, labels, max};
    op.outputs = {statistic("sums", sums_shape)};
    const TensorId part_sums = op.outputs[0];
    tensor(part_sums).spec[Axis::kDp] = shard(1);  // the batch stands behind the pair
    emit(op);
    const TensorId sums = reduced(part_sums, "all");
    op = origin;
    op.inputs = {logits, labels, max, sums};
    if (op.outputs.size() > 1) {  // probabilities, shaped like the logits
      tensor(op.outputs[1]).shape = tensor(logits).shape;
      tensor(op.outputs[1]).spec = tensor(logits).spec;
    }
    emit(std::move(op));
  }

  /// Ops that compute each element, row or head by itself: outputs lie as the first sharded input.
  void add_local(const Op& origin) {
    Op op = origin;
    TensorId guide = kNoIndex;
    for (TensorId input : op.inputs) {
      if (tensor(input).role == TensorRole::kParameter) continue;
      if (guide == kNoIndex || placement(guide).kind != AxisPlacement::Kind::kShard) guide = input;
    }
    const bool by_head = op.attrs.heads > 0 && guide != kNoIndex && !on_sequence(guide) &&
                         placement(guide).kind == AxisPlacement::Kind::kShard;
    if (by_head) {
      if (op.attrs.heads % degree_ != 0 || op.attrs.kv_heads % degree_ != 0) {
        throw DoesNotDivide(tensor(op.outputs[0]).name + ": tensor parallelism over " +
                            std::to_string(degree_) + " ranks does not divide " +
                            std::to_string(op.attrs.heads) + " heads and " +
                            std::to_string(op.attrs.kv_heads) + " key-value heads");
      }
      op.attrs.heads /= degree_;
      op.attrs.kv_heads /= degree_;
    }
    if (guide != kNoIndex && placement(guide).kind == AxisPlacement::Kind::kShard) {
      for (TensorId output : op.outputs) place_like(op, output, guide);
    }
    emit(std::move(op));
  }

  void place_like(const Op& op, TensorId output, TensorId guide) {
    if (on_sequence(guide)) return split(output, kSequenceDim);
    // Features of [B, S, .] correspond to heads of [B, N, Sq, Sk] and of flash attention's [B, N,
    // Sq].
    const bool by_head = tensor(output).shape.size() == 4 ||
                         (op.kind == OpKind::kFlashAttention && output != op.outputs[0]);
    split(output, by_head ? 1 : last_dim(output));
  }

  const Graph& in_;
  Graph out_;
  int degree_;
  bool sequence_;
  std::unordered_map<std::string, int> copies_;  // of tensors that several ops enter or gather
};

}  // namespace

std::variant<Graph, Infeasible> shard_megatron(const Graph& graph, int tensor,
                                               bool sequence_parallel) {
  try {
    return MegatronSharder(graph, tensor, sequence_parallel).run();
  } catch (const DoesNotDivide& problem) {
    return Infeasible{problem.what(), "parallel.tensor"};
  }
}

}  // namespace trainyard
