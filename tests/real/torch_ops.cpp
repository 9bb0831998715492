#include "tests/real/torch_ops.h"

#include <array>
#include <tuple>

#include "engine/base/error.h"
#include "real/kernels/windows.h"
#include "tests/real/torch_attention.h"

namespace trainyard {

namespace {

std::vector<std::int64_t> extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// Sums, sums of squares and counts of each group of samples, by channel.
at::Tensor moments(const at::Tensor& x, const Shape& to) {
  const at::Tensor by_group =
      x.reshape({to[0], x.size(0) / to[0], x.size(1), x.size(2) * x.size(3)});
  const at::Tensor sum = by_group.sum({1, 3}), squares = (by_group * by_group).sum({1, 3});
  return at::stack({sum, squares, at::ones_like(sum) * (by_group.size(1) * by_group.size(3))}, 1);
}

/// By LibTorch's own batch norm of each group, whatever the moments say.
at::Tensor normalize(const OpAttrs& attrs, const std::vector<at::Tensor>& in) {
  const std::size_t weight = in.size() - 2;
  const std::int64_t samples = attrs.samples == 0 ? in[0].size(0) : attrs.samples;
  std::vector<at::Tensor> groups;
  for (std::int64_t first = 0; first < in[0].size(0); first += samples)
    groups.push_back(at::batch_norm(in[0].narrow(0, first, samples), in[weight], in[weight + 1], {},
                                    {},
                                    /*training=*/true, 0, attrs.eps, /*cudnn_enabled=*/false));
  return at::cat(groups, 0);
}

/// By torch.gather, of an index that counts from the beginning and has x's elements behind it.
at::Tensor gather(const at::Tensor& x, const at::Tensor& index, const Shape& to) {
  const at::Tensor from_begin = at::remainder(index, x.size(-2));
  return at::gather(x, -2, from_begin.unsqueeze(-1).expand(extents(to)));
}

/// By torch.scatter and scatter_add, of the same index.
at::Tensor scatter(const OpAttrs& attrs, const std::vector<at::Tensor>& in) {
  const at::Tensor from_begin = at::remainder(in[1].to(at::kLong), in[0].size(-2));
  const at::Tensor places = from_begin.unsqueeze(-1).expand(in[2].sizes());
  return attrs.adds ? at::scatter_add(in[0], -2, places, in[2])
                    : at::scatter(in[0], -2, places, in[2]);
}

at::Tensor zero_pad(const OpAttrs& attrs, const at::Tensor& x) {
  std::vector<std::int64_t> pads;  // of the last dim first
  for (std::int64_t dim = x.dim() - 1; dim > attrs.dim; --dim) pads.insert(pads.end(), {0, 0});
  pads.insert(pads.end(), {attrs.begin, attrs.end});
  return at::constant_pad_nd(x, pads);
}

at::Tensor interpolate(const OpAttrs& attrs, const at::Tensor& x, const Shape& to) {
  const std::array<std::int64_t, 2> size = {to[2], to[3]};
  return attrs.bilinear ? at::upsample_bilinear2d(x, size, attrs.aligned)
                        : at::upsample_nearest2d(x, size);
}

/// Mean and 1 / deviation of each group of channels of a sample.
at::Tensor group_statistics(const OpAttrs& attrs, const at::Tensor& x) {
  const at::Tensor groups = x.reshape({x.size(0), attrs.groups, -1});
  const at::Tensor variance = groups.var(2, /*unbiased=*/false);
  return at::stack({groups.mean(2), (variance + double{attrs.eps}).rsqrt()}, 1);
}

/// By PyTorch's convolution, of the tokens so far.
at::Tensor causal_conv1d(const std::vector<at::Tensor>& in) {
  const at::Tensor w = in[1].squeeze(2);  // [C, 1, width]
  const at::Tensor tokens = at::constant_pad_nd(in[0].transpose(1, 2), {w.size(2) - 1, 0});
  const std::array<std::int64_t, 1> one = {1}, none = {0};
  return at::silu(at::conv1d(tokens, w, in[2], one, none, one, w.size(0)).transpose(1, 2));
}

/// The recurrence, token by token: state <- exp(dt A) state + dt x b^T, y = state c + d x.
at::Tensor chunk_scan(const OpAttrs& attrs, const std::vector<at::Tensor>& in) {
  const std::int64_t heads = attrs.heads, each = heads / attrs.kv_heads;
  const at::Tensor x = in[0].unflatten(-1, {heads, attrs.head_dim});
  const at::Tensor dt = at::softplus(in[1] + in[5]);
  const auto by_head = [&](const at::Tensor& of) {  // [B, S, N, 1, K]
    return of.unflatten(-1, {attrs.kv_heads, attrs.states}).repeat_interleave(each, 2).unsqueeze(3);
  };
  const at::Tensor b = by_head(in[2]), c = by_head(in[3]);
  const at::Tensor decay = at::exp(-dt * in[4].exp()).unsqueeze(-1).unsqueeze(-1);
  at::Tensor state = at::zeros({x.size(0), heads, attrs.head_dim, attrs.states}, x.options());
  std::vector<at::Tensor> tokens;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const at::Tensor moved = (x.select(1, t) * dt.select(1, t).unsqueeze(-1)).unsqueeze(-1);
    state = state * decay.select(1, t) + moved * b.select(1, t);
    tokens.push_back((state * c.select(1, t)).sum(-1) + in[6].unsqueeze(-1) * x.select(1, t));
  }
  return at::stack(tokens, 1).flatten(2);
}

/// Ops of one operand, element by element.
at::Tensor pointwise(const Op& op, const at::Tensor& x) {
  const OpAttrs& attrs = op.attrs;
  switch (op.kind) {
    case OpKind::kTanh: return at::tanh(x);
    case OpKind::kGelu: return at::gelu(x);
    case OpKind::kAffine: return x * double{attrs.scale} + double{attrs.shift};
    case OpKind::kPower: return at::pow(x, double{attrs.exponent});
    case OpKind::kExp: return at::exp(x);
    case OpKind::kLog: return at::log(x);
    case OpKind::kErf: return at::erf(x);
    case OpKind::kSin: return at::sin(x);
    case OpKind::kCos: return at::cos(x);
    case OpKind::kSigmoid: return at::sigmoid(x);
    case OpKind::kSilu: return at::silu(x);
    case OpKind::kSoftplus: return at::softplus(x);
    case OpKind::kClamp: return at::clamp(x, double{attrs.low}, double{attrs.high});
    default: bug("an op that no general graph has");
  }
}

at::Tensor one_result(const Op& op, const std::vector<at::Tensor>& in, const Shape& to,
                      int microbatches) {
  const OpAttrs& attrs = op.attrs;
  const std::vector<std::int64_t> dims(attrs.dims.begin(), attrs.dims.end());
  switch (op.kind) {
    case OpKind::kView:
    case OpKind::kPieces: return in[0].reshape(extents(to));
    case OpKind::kPermute: return in[0].permute(dims);
    case OpKind::kRoll: return at::roll(in[0], attrs.by, attrs.dim);
    case OpKind::kFlip: return at::flip(in[0], {attrs.dim});
    case OpKind::kNarrow: return in[0].narrow(attrs.dim, attrs.begin, to.begin()[attrs.dim]);
    case OpKind::kConcat: return at::cat(in, attrs.dim);
    case OpKind::kAdd: return in[0] + in[1];
    case OpKind::kMul: return in[0] * in[1];
    case OpKind::kSub: return in[0] - in[1];
    case OpKind::kDiv: return in[0] / in[1];
    case OpKind::kWhere: return at::where(in[0].ne(0), in[1], in[2]);
    case OpKind::kSum: return in[0].sum(dims).reshape(extents(to));
    case OpKind::kCumsum: return at::cumsum(in[0], attrs.dim);
    case OpKind::kZeroPad: return zero_pad(attrs, in[0]);
    case OpKind::kSoftmax: return at::softmax(in[0], -1);
    case OpKind::kBmm: return at::matmul(in[0], in[1]);
    case OpKind::kGather: return gather(in[0], in[1].to(at::kLong), to);
    case OpKind::kScatter: return scatter(attrs, in);
    case OpKind::kLinear: return at::linear(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor{});
    case OpKind::kConv2d:
      return at::conv2d(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor{}, pair_of(attrs.stride),
                        pair_of(attrs.padding), pair_of(attrs.dilation), attrs.groups);
    case OpKind::kCausalConv1d: return causal_conv1d(in);
    case OpKind::kChunkScan: return chunk_scan(attrs, in);
    case OpKind::kConvTranspose2d:
      return at::conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor{},
                                  pair_of(attrs.stride), pair_of(attrs.padding),
                                  pair_of(attrs.extra), attrs.groups, pair_of(attrs.dilation));
    case OpKind::kInterpolate2d: return interpolate(attrs, in[0], to);
    case OpKind::kAvgPool2d:
      return at::avg_pool2d(in[0], pair_of(attrs.window), pair_of(attrs.stride),
                            pair_of(attrs.padding));
    case OpKind::kAffine: return in[0] * attrs.scale + attrs.shift;
    case OpKind::kRope: return turned_by_torch(attrs, in[0]);
    case OpKind::kAttention: return attended_by_torch(attrs, in[0]);
    case OpKind::kBatchMoments: return moments(in[0], to);
    case OpKind::kBatchNormalize: return normalize(attrs, in);
    case OpKind::kMse:
      return (in[0] - in[1]).square().mean().reshape({1}) / static_cast<double>(microbatches);
    case OpKind::kBce:
      return at::binary_cross_entropy_with_logits(in[0], in[1]).reshape({1}) /
             static_cast<double>(microbatches);
    default: return pointwise(op, in[0]);
  }
}

at::Tensor normalized(const Op& op, const std::vector<at::Tensor>& in) {
  switch (op.kind) {
    case OpKind::kBatchNorm: return normalize(op.attrs, in);
    case OpKind::kLayerNorm:
      return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in.size() > 2 ? in[2] : at::Tensor{},
                            op.attrs->eps);
    case OpKind::kRmsNorm: return rms_norm_by_torch(op.attrs, in[0], in[1]);
    case OpKind::kHeadNorm: return heads_normalized_by_torch(op.attrs, in[0], in[1], in[2]);
    default: bug("a norm that no general graph has");
  }
}

}  // namespace

void run_by_torch(const Graph& graph, const Op& op, int microbatches,
                  Indexed<TensorId, at::Tensor>& values) {
  std::vector<at::Tensor> in;
  for (const TensorId input : op.inputs) in.push_back(values[input]);
  if (op.kind == OpKind::kMaxPool2d) {
    std::tie(values[op.outputs[0]], values[op.outputs[1]]) = at::max_pool2d_with_indices(
        in[0], pair_of(op.attrs->window), pair_of(op.attrs->stride), pair_of(op.attrs->padding));
    return;
  }
  if (op.kind == OpKind::kGroupNorm) {
    values[op.outputs[0]] = at::group_norm(in[0], op.attrs->groups, in[1], in[2], op.attrs->eps);
    values[op.outputs[1]] = group_statistics(op.attrs, in[0]);
    return;
  }
  if (op.outputs.size() == 2 && op.kind != OpKind::kSplit) {
    values[op.outputs[0]] = normalized(op, in);
    values[op.outputs[1]] = at::zeros({1}, at::kDouble);  // nothing that a graph reads
    return;
  }
  if (op.kind != OpKind::kSplit) {
    const TensorId y = op.outputs[0];
    values[y] = one_result(op, in, graph.tensors[y].shape, microbatches);
    return;
  }
  std::int64_t begin = 0;
  for (const TensorId part : op.outputs) {
    const std::int64_t length = graph.tensors[part].shape.begin()[op.attrs->dim];
    values[part] = in[0].narrow(op.attrs->dim, begin, length);
    begin += length;
  }
}

}  // namespace trainyard
