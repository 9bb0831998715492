// Attention. Features of a head lie side by side: q [B, Sq, N H], k and v [B, Sk, Nkv H], packed as
// [q k v] or [k v] along the last dim. Scores are [B, N, Sq, Sk]. Query heads share key-value heads in
// runs of N / Nkv.
#include <cmath>
#include <limits>

#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// [B, S, heads * H] -> [B, heads, S, H], a view.
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// [B, N, S, H] -> [B, S, N H].
at::Tensor by_token(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

struct Projections {
  at::Tensor q, k, v;
};

/// Views of q, k and v by head: operands `first` on, one packed tensor or q and [k v].
Projections projections(const KernelCall& call, std::size_t first) {
  const OpAttrs& attrs = *call.attrs;
  const std::int64_t width = std::int64_t{attrs.heads} * attrs.head_dim;
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  const at::Tensor& packed = call.read(attrs.packed ? first : first + 1);
  const std::int64_t offset = attrs.packed ? width : 0;
  const at::Tensor q = attrs.packed ? packed.narrow(-1, 0, width) : call.read(first);
  return {by_head(q, attrs.heads), by_head(packed.narrow(-1, offset, kv_width), attrs.kv_heads),
          by_head(packed.narrow(-1, offset + kv_width, kv_width), attrs.kv_heads)};
}

/// Padding mask [B, Sk], 1: attend, as what is added to scores [B, 1, Sq, Sk].
std::optional<at::Tensor> additive_mask(const KernelCall& call, std::size_t i, const at::Tensor& q) {
  if (!call.attrs->has_mask) return std::nullopt;
  const at::Tensor& mask = call.read(i);
  at::Tensor out = at::zeros({mask.size(0), 1, 1, mask.size(1)}, q.options());
  out.masked_fill_((mask == 0).view(out.sizes()), -std::numeric_limits<double>::infinity());
  return out.expand({mask.size(0), 1, q.size(2), mask.size(1)});
}

/// k or v [B, Nkv, S, H] for every query head: [B, N, S, H].
at::Tensor for_query_heads(const at::Tensor& x, const OpAttrs& attrs) {
  if (attrs.kv_heads == attrs.heads) return x;
  return x.repeat_interleave(attrs.heads / attrs.kv_heads, 1);
}

/// Sums the gradients [B, N, S, H] of query heads that share a key-value head.
at::Tensor for_kv_heads(const at::Tensor& x, const OpAttrs& attrs) {
  if (attrs.kv_heads == attrs.heads) return x;
  return x.view({x.size(0), attrs.kv_heads, attrs.heads / attrs.kv_heads, x.size(2), x.size(3)}).sum(2);
}

/// [B, N, Sq, Sk] as a batch of matrices.
at::Tensor batched(const at::Tensor& x) { return x.reshape({-1, x.size(-2), x.size(-1)}); }

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(batched(a), batched(b)).view({a.size(0), a.size(1), a.size(2), b.size(3)});
}

}  // namespace

void flash_attention(KernelCall& call) {
  const auto [q, k, v] = projections(call, 0);
  const std::optional<at::Tensor> mask = additive_mask(call, call.attrs->packed ? 1 : 2, q);
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, k, v, /*dropout_p=*/0.0, call.attrs->causal, mask, double{call.attrs->scale});
  call.set(0, by_token(out));
  call.set(1, lse.to(call.write_types[1]));
}

void flash_attention_dx(KernelCall& call) {
  // Reads do, [qkv | q, kv], [mask,] out, lse.
  const OpAttrs& attrs = *call.attrs;
  const auto [q, k, v] = projections(call, 1);
  std::size_t next = attrs.packed ? 2 : 3;
  const std::optional<at::Tensor> mask = additive_mask(call, next, q);
  if (mask) ++next;
  const at::Tensor grad = by_head(call.read(0), attrs.heads);
  const at::Tensor out = by_head(call.read(next), attrs.heads);
  const at::Tensor lse = call.read(next + 1);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, k, v, out, lse, /*dropout_p=*/0.0, attrs.causal, mask, double{attrs.scale});
  const std::int64_t width = std::int64_t{attrs.heads} * attrs.head_dim;
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  if (!attrs.packed) call.set(0, by_token(dq));
  at::Tensor packed = call.out(attrs.packed ? 0 : 1);
  const std::int64_t offset = attrs.packed ? width : 0;
  if (attrs.packed) packed.narrow(-1, 0, width).copy_(by_token(dq));
  packed.narrow(-1, offset, kv_width).copy_(by_token(dk));
  packed.narrow(-1, offset + kv_width, kv_width).copy_(by_token(dv));
}

void scores(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor q = by_head(call.read(0), attrs.heads);
  const at::Tensor k = for_query_heads(by_head(call.read(1), attrs.kv_heads), attrs);
  at::Tensor out = product(q, k.transpose(2, 3));
  if (attrs.scale != 1) out.mul_(attrs.scale);
  call.set(0, std::move(out));
}

void scores_dx(KernelCall& call) {  // reads ds, q, k
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& ds = call.read(0);
  const at::Tensor q = by_head(call.read(1), attrs.heads);
  const at::Tensor k = for_query_heads(by_head(call.read(2), attrs.kv_heads), attrs);
  at::Tensor dq = product(ds, k);
  at::Tensor dk = for_kv_heads(product(ds.transpose(2, 3), q), attrs);
  if (attrs.scale != 1) dq.mul_(attrs.scale), dk.mul_(attrs.scale);
  call.set(0, by_token(dq));
  call.set(1, by_token(dk));
}

void add_attention_bias(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::add_out(y, call.read(0), call.read(1).unsqueeze(0));
}

void add_attention_bias_dx(KernelCall& call) { call.set(0, at::sum(call.read(0), {0})); }

void softmax(KernelCall& call) {
  at::Tensor x = call.read(0);
  const std::int64_t queries = x.size(2), keys = x.size(3);
  const bool masked = call.attrs->causal || call.attrs->has_mask;
  if (masked) {
    at::Tensor hidden;
    if (call.attrs->causal) {
      hidden = at::ones({queries, keys}, x.options().dtype(at::kBool)).triu_(1).view({1, 1, queries, keys});
    }
    if (call.attrs->has_mask) {
      const at::Tensor padding = (call.read(1) == 0).view({x.size(0), 1, 1, keys});
      hidden = hidden.defined() ? at::logical_or(hidden, padding) : padding;
    }
    x = x.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  call.set(0, at::_softmax(x, -1, /*half_to_float=*/false));
}

void softmax_dx(KernelCall& call) {  // reads dp, p
  call.set(0, at::_softmax_backward_data(call.read(0), call.read(1), -1, call.read(1).scalar_type()));
}

void context(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor v = for_query_heads(by_head(call.read(1), attrs.kv_heads), attrs);
  call.set(0, by_token(product(call.read(0), v)));
}

void context_dx(KernelCall& call) {  // reads do, p, v
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor grad = by_head(call.read(0), attrs.heads);
  const at::Tensor v = for_query_heads(by_head(call.read(2), attrs.kv_heads), attrs);
  call.set(0, product(grad, v.transpose(2, 3)));
  call.set(1, by_token(for_kv_heads(product(call.read(1).transpose(2, 3), grad), attrs)));
}

namespace {

/// Which row of T5's table serves the distance of key k from query q: half of the buckets hold one
/// distance each, the rest grow logarithmically up to 128 (Raffel et al. 2020, section 2.1).
at::Tensor relative_buckets(std::int64_t queries, std::int64_t keys, std::int64_t buckets, bool causal) {
  constexpr double kMaxDistance = 128;
  at::Tensor out = at::empty({queries, keys}, at::kLong);
  auto table = out.accessor<std::int64_t, 2>();
  for (std::int64_t q = 0; q < queries; ++q) {
    for (std::int64_t k = 0; k < keys; ++k) {
      std::int64_t distance = k - q;
      std::int64_t count = buckets;
      std::int64_t bucket = 0;
      if (causal) {
        distance = std::max<std::int64_t>(-distance, 0);
      } else {
        count /= 2;
        if (distance > 0) bucket = count;
        distance = std::abs(distance);
      }
      const std::int64_t exact = count / 2;
      if (distance < exact) {
        bucket += distance;
      } else {
        // In fp32, as the models that were trained with it computed it.
        const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                            static_cast<float>(std::log(kMaxDistance / static_cast<double>(exact)));
        bucket += std::min<std::int64_t>(
            exact + static_cast<std::int64_t>(share * static_cast<float>(count - exact)), count - 1);
      }
      table[q][k] = bucket;
    }
  }
  return out.view({-1});
}

}  // namespace

void relative_bias(KernelCall& call) {  // table [buckets, N] -> [N, Sq, Sk]
  const at::Tensor& table = call.read(0);
  const auto& shape = call.write_shapes[0];
  const at::Tensor index = relative_buckets(shape[1], shape[2], table.size(0), call.attrs->causal);
  call.set(0, table.index_select(0, index.to(table.device())).t().reshape(shape));
}

void relative_bias_dw(KernelCall& call) {  // reads d bias [N, Sq, Sk]
  const at::Tensor& grad = call.read(0);
  at::Tensor& table = call.accumulates[0];
  const at::Tensor index = relative_buckets(grad.size(1), grad.size(2), table.size(0), call.attrs->causal);
  table.index_add_(0, index.to(grad.device()),
                   grad.reshape({grad.size(0), -1}).t().to(table.scalar_type()));
}

namespace {

/// Turns q and k of [q k v] by `sign` times their positions' angles: features i and i + H/2 of a head
/// are a pair, at angle position * base^(-2i/H) (Su et al. 2021, in Hugging Face's order of features).
void rotate(KernelCall& call, double sign) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& x = call.read(0);
  const std::int64_t half = attrs.head_dim / 2;
  const std::int64_t turned = std::int64_t{attrs.heads} + attrs.kv_heads;
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = at::TensorOptions(at::kDouble).device(x.device());
  const at::Tensor frequency =
      at::pow(double{attrs.rope_base}, at::arange(0, half, options).mul_(-1.0 / static_cast<double>(half)));
  const at::Tensor angle = at::outer(at::arange(0, x.size(1), options), frequency);
  const at::Tensor cos = angle.cos().to(type).unsqueeze(1);               // [S, 1, H/2]
  const at::Tensor sin = angle.sin().mul_(sign).to(type).unsqueeze(1);
  at::Tensor y = call.out(0);
  const std::int64_t width = turned * attrs.head_dim;
  const auto pairs = [&](const at::Tensor& t) {
    return t.narrow(-1, 0, width).view({t.size(0), t.size(1), turned, 2, half});
  };
  const at::Tensor from = pairs(x).to(type);
  const at::Tensor a = from.select(3, 0), b = from.select(3, 1);
  const at::Tensor to = pairs(y);
  to.select(3, 0).copy_(at::mul(a, cos).sub_(at::mul(b, sin)));
  to.select(3, 1).copy_(at::mul(b, cos).add_(at::mul(a, sin)));
  const std::int64_t rest = x.size(-1) - width;
  y.narrow(-1, width, rest).copy_(x.narrow(-1, width, rest));
}

}  // namespace

void rope(KernelCall& call) { rotate(call, 1); }
void rope_dx(KernelCall& call) { rotate(call, -1); }

}  // namespace trainyard
