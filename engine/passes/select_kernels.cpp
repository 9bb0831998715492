#include "engine/passes/select_kernels.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <utility>

namespace trainyard {

namespace {

/// Rewrites one graph into another with the same tensors (and more), op by op.
class KernelSelector {
 public:
  KernelSelector(const Graph& model, const SoftwareProfile& software, bool flash)
      : model_(model),
        software_(software),
        flash_(flash),
        uses_(model.tensors.size(), 0) {
    out_ = without_ops(model);
    out_.ops.reserve(model.ops.size() + model.ops.size() / 2);
    for (const Op& op : model.ops) {
      for (TensorId input : op.inputs) ++uses_[input];
    }
  }

  Graph run() {
    for (OpId i{0}; model_.ops.has(i); ++i) {
      const Op& op = model_.ops[i];
      if (op.kind == OpKind::kAttention) {
        flash_&& fits_flash(op.attrs) ? flash_attention(op) : unfused_attention(op);
      } else if (op.kind == OpKind::kDropout) {
        dropout(op);
      } else if (op.kind == OpKind::kCrossEntropy) {
        cross_entropy(op);
      } else if (op.kind == OpKind::kGelu && op.attrs->tanh_gelu && software_.autocast_kernels) {
        gelu_by_ops(op);
      } else if (const std::size_t fused = fuse_linear(i); fused > 0) {
        i = i + (fused - 1);
      } else {
        emit(op);
      }
    }
    return std::move(out_);
  }

 private:
  const Tensor& tensor(TensorId id) const { return out_.tensors[id]; }

  void emit(Op op) {
    for (TensorId output : op.outputs) out_.tensors[output].producer = out_.ops.next();
    out_.ops.push_back(std::move(op));
  }

  TensorId new_tensor(const Op& origin, std::string_view suffix, Shape shape, DType dtype,
                      bool needs_gradient = true) {
    Tensor t;
    t.name = out_.modules[origin.module] + "." + std::string(suffix);
    t.shape = std::move(shape);
    t.dtype = dtype;
    t.needs_gradient = needs_gradient;
    return out_.tensors.add(std::move(t));
  }

  Op derived(const Op& origin, OpKind kind) const {
    Op op;
    op.kind = kind;
    op.attrs = origin.attrs;
    op.module = origin.module;
    op.layer = origin.layer;
    op.sublayer = origin.sublayer;
    return op;
  }

  /// Windows do: what is hidden is hidden before the kernel's softmax.
  static bool fits_flash(const OpAttrs& attrs) {
    return !attrs.has_bias && attrs.softcap == 0 && attrs.alibi == 0;
  }

  void flash_attention(const Op& origin) {
    Op op = derived(origin, OpKind::kFlashAttention);
    op.inputs = origin.inputs;
    const Tensor& out = tensor(origin.outputs[0]);
    // lse: the log-sum-exp of each query row.
    const TensorId lse =
        new_tensor(origin, "lse", {out.shape[0], origin.attrs->heads, out.shape[1]},
                   accumulation_type(out.dtype), false);
    op.outputs = {origin.outputs[0], lse};
    emit(std::move(op));
  }

  TensorId masked_dropout(const Op& origin, TensorId x, TensorId y) {
    Op op = derived(origin, OpKind::kDropout);
    op.inputs = {x};
    if (y == kNoIndex)
      y = new_tensor(origin, "kept_probabilities", tensor(x).shape, tensor(x).dtype);
    op.outputs = {y};
    if (software_.saves_dropout_mask) op.outputs.push_back(mask_of(y));
    emit(std::move(op));
    return y;
  }

  /// Which elements of the dropout's output `y` were kept.
  TensorId mask_of(TensorId y) {
    Tensor mask;
    mask.name = tensor(y).name + ".mask";
    mask.shape = tensor(y).shape;
    mask.dtype = DType::kUint8;
    out_.tensors.push_back(std::move(mask));
    return TensorId(out_.tensors.size() - 1);
  }

  void dropout(const Op& origin) { masked_dropout(origin, origin.inputs[0], origin.outputs[0]); }

  /// The log of the softmax of the logits is what its backward reads.
  void cross_entropy(const Op& origin) {
    Op op = origin;
    const Tensor& logits = tensor(op.inputs[0]);
    op.outputs.push_back(new_tensor(origin, "log_probabilities", logits.shape,
                                    accumulation_type(logits.dtype), false));
    emit(std::move(op));
  }

  /// Behind `origin`, element by element; writes `y`, or a tensor of its own of `type`.
  TensorId element_wise(const Op& origin, OpKind kind, const OpAttrs& attrs,
                        std::initializer_list<TensorId> inputs, std::string_view name, DType type,
                        TensorId y = kNoIndex) {
    Op op = derived(origin, kind);
    op.attrs = attrs;
    op.inputs.assign(inputs.begin(), inputs.end());
    if (y == kNoIndex) y = new_tensor(origin, name, tensor(op.inputs[0]).shape, type);
    op.outputs = {y};
    emit(std::move(op));
    return y;
  }

  /// In what autocast takes powers and softmaxes.
  static DType wide(DType type) { return size_in_bytes(type) == 2 ? DType::kFp32 : type; }

  TensorId cast(const Op& origin, const OpAttrs& attrs, TensorId x, std::string_view name,
                DType type, TensorId y = kNoIndex) {
    if (tensor(x).dtype == type) return x;
    return element_wise(origin, OpKind::kCast, attrs, {x}, name, type, y);
  }

  /// Transformers' gelu_new, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), a kernel for each op;
  /// autocast takes the power in fp32, and what it meets follows.
  void gelu_by_ops(const Op& origin) {
    const TensorId narrow = origin.inputs[0], result = origin.outputs[0];
    const DType type = wide(tensor(narrow).dtype);
    const auto affine = [&](TensorId of, std::string_view name, double scale, double shift = 0) {
      OpAttrs attrs;
      attrs.scale = static_cast<float>(scale);
      attrs.shift = static_cast<float>(shift);
      return element_wise(origin, OpKind::kAffine, attrs, {of}, name, type);
    };
    const TensorId x = cast(origin, {}, narrow, "wide", type);
    OpAttrs cube;
    cube.exponent = 3;
    TensorId t = element_wise(origin, OpKind::kPower, cube, {x}, "cube", type);
    t = affine(t, "small_cube", 0.044715);
    t = element_wise(origin, OpKind::kAdd, {}, {x, t}, "sum", type);
    t = affine(t, "angle", std::sqrt(2 / std::numbers::pi));
    t = element_wise(origin, OpKind::kTanh, {}, {t}, "tanh", type);
    t = affine(t, "gate", 1, 1);
    const TensorId half = affine(x, "half", 0.5);
    const bool same = tensor(result).dtype == type;
    t = element_wise(origin, OpKind::kMul, {}, {half, t}, "product", type,
                     same ? result : kNoIndex);
    cast(origin, {}, t, "", tensor(result).dtype, result);
  }

  /// c tanh(s / c) of scores that are over c already.
  TensorId capped(const Op& origin, TensorId x) {
    for (const OpKind kind : {OpKind::kTanh, OpKind::kAffine}) {
      Op op = derived(origin, kind);
      op.attrs.set(&OpAttrs::scale, kind == OpKind::kTanh ? 1 : origin.attrs->softcap);
      op.inputs = {x};
      x = new_tensor(origin, kind == OpKind::kTanh ? "bounded_scores" : "capped_scores",
                     tensor(x).shape, tensor(x).dtype);
      op.outputs = {x};
      emit(std::move(op));
    }
    return x;
  }

  void unfused_attention(const Op& origin) {
    const OpAttrs& attrs = origin.attrs;
    const TensorId packed = origin.inputs[attrs.packed ? 0 : 1];
    const DType dtype = tensor(packed).dtype;
    const std::int64_t batch = tensor(origin.inputs[0]).shape[0];
    const std::int64_t queries = tensor(origin.inputs[0]).shape[1];
    const std::int64_t keys = tensor(packed).shape[1];
    const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;

    // Views into the packed tensor: q, k, v of self-attention; k, v of cross-attention.
    Op split = derived(origin, OpKind::kSplit);
    split.inputs = {packed};
    TensorId q = origin.inputs[0];
    std::int64_t offset = 0;
    const auto view = [&](std::string_view name, Shape shape) {
      const std::int64_t width = shape.back();
      const TensorId id = new_tensor(origin, name, std::move(shape), dtype);
      Tensor& part = out_.tensors[id];
      part.alias = packed;
      part.alias_offset = offset;
      offset += width;
      split.outputs.push_back(id);
      return id;
    };
    if (attrs.packed) q = view("q", {batch, queries, std::int64_t{attrs.heads} * attrs.head_dim});
    const TensorId k = view("k", {batch, keys, kv_width});
    const TensorId v = view("v", {batch, keys, kv_width});
    emit(std::move(split));

    const Shape square = {batch, attrs.heads, queries, keys};
    Op scores = derived(origin, OpKind::kScores);
    if (attrs.softcap > 0) scores.attrs.set(&OpAttrs::scale, attrs.scale / attrs.softcap);
    const float scale = scores.attrs->scale;
    const bool by_ops = software_.autocast_kernels && scale != 1;
    if (by_ops) scores.attrs.set(&OpAttrs::scale, 1);
    scores.inputs = {q, k};
    TensorId x = new_tensor(origin, "scores", square, dtype);
    scores.outputs = {x};
    emit(std::move(scores));
    if (by_ops) {
      OpAttrs scaled = attrs;
      scaled.scale = scale;
      x = element_wise(origin, OpKind::kAffine, scaled, {x}, "scaled_scores", dtype);
    }
    if (attrs.softcap > 0) x = capped(origin, x);

    const TensorId mask = attrs.has_mask ? origin.inputs[attrs.packed ? 1 : 2] : kNoIndex;
    if (attrs.has_bias) {
      Op bias = derived(origin, OpKind::kAddAttentionBias);
      bias.inputs = {x, origin.inputs.back()};
      x = new_tensor(origin, "biased_scores", square, dtype);
      bias.outputs = {x};
      emit(std::move(bias));
    }
    const DType of_softmax = software_.autocast_kernels ? wide(dtype) : dtype;
    x = cast(origin, attrs, x, "wide_scores", of_softmax);
    Op softmax = derived(origin, OpKind::kSoftmax);
    softmax.inputs = {x};
    if (mask != kNoIndex) softmax.inputs.push_back(mask);
    x = new_tensor(origin, "probabilities", square, of_softmax);
    softmax.outputs = {x};
    emit(std::move(softmax));
    x = cast(origin, attrs, x, "narrow_probabilities", dtype);

    if (attrs.rate > 0) x = masked_dropout(origin, x, kNoIndex);

    Op context = derived(origin, OpKind::kContext);
    context.inputs = {x, v};
    if (software_.attention_transposes) {
      const TensorId by_head =
          new_tensor(origin, "context", tensor(origin.outputs[0]).shape, dtype);
      context.outputs = {by_head};
      emit(std::move(context));
      Op transpose = derived(origin, OpKind::kTranspose);
      transpose.inputs = {by_head};
      transpose.outputs = {origin.outputs[0]};
      emit(std::move(transpose));
    } else {
      context.outputs = {origin.outputs[0]};
      emit(std::move(context));
    }
  }

  bool only_use(TensorId id, const Op& user) const {
    return uses_[id] == 1 &&
           std::find(user.inputs.begin(), user.inputs.end(), id) != user.inputs.end();
  }

  /// Linear with bias at op `i`, followed by gelu or by [dropout,] add: emits the fused form.
  /// Returns how many ops of the model it covers; 0: nothing to fuse here.
  std::size_t fuse_linear(OpId i) {
    const auto& ops = model_.ops;
    const Op& linear = ops[i];
    if (linear.kind != OpKind::kLinear || !linear.attrs->has_bias || !ops.has(i + 1)) return 0;
    const Op& next = ops[i + 1];
    if (!only_use(linear.outputs[0], next)) return 0;
    if (software_.fused_bias_gelu && next.kind == OpKind::kGelu) {
      emit_without_bias(linear);
      Op op = derived(next, OpKind::kBiasGelu);
      op.attrs.set(&OpAttrs::has_bias, true);
      op.inputs = {linear.outputs[0], linear.inputs[2]};
      op.outputs = next.outputs;
      emit(std::move(op));
      return 2;
    }
    if (!software_.fused_bias_dropout_add) return 0;
    const bool drops = next.kind == OpKind::kDropout;
    if (drops && !ops.has(i + 2)) return 0;
    const Op& add = drops ? ops[i + 2] : next;
    const TensorId x = drops ? next.outputs[0] : linear.outputs[0];
    if (add.kind != OpKind::kAdd || !only_use(x, add)) return 0;
    const TensorId residual = add.inputs[0] == x ? add.inputs[1] : add.inputs[0];
    const bool alike = tensor(residual).shape == tensor(x).shape &&
                       tensor(residual).role != TensorRole::kParameter;
    if (!alike) return 0;
    emit_without_bias(linear);
    Op op = derived(add, OpKind::kBiasDropoutAdd);
    op.attrs.set(&OpAttrs::has_bias, true);
    op.attrs.set(&OpAttrs::rate, drops ? next.attrs->rate : 0);
    op.attrs.set(&OpAttrs::draw, drops ? next.attrs->draw : 0);
    op.inputs = {linear.outputs[0], linear.inputs[2], residual};
    op.outputs = {add.outputs[0]};
    if (software_.saves_dropout_mask && drops) op.outputs.push_back(mask_of(add.outputs[0]));
    emit(std::move(op));
    return drops ? 3 : 2;
  }

  void emit_without_bias(const Op& linear) {
    Op op = linear;
    op.attrs.set(&OpAttrs::has_bias, false);
    op.inputs.pop_back();
    emit(std::move(op));
  }

  const Graph& model_;
  const SoftwareProfile& software_;
  bool flash_;
  Indexed<TensorId, int> uses_;  // of the model: how many ops read it
  Graph out_;
};

}  // namespace

Graph select_kernels(const Graph& model, const SoftwareProfile& software, bool flash) {
  return KernelSelector(model, software, flash).run();
}

}  // namespace trainyard
