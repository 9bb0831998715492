// Attention whose scores are never kept: forward saves of each query row the log of the sum of the
// exponentials, from which backward makes the probabilities again. Operands lie as heads.h says.
//
// LibTorch has a kernel of its own for each kind of device and type; all keep the same two results,
// so that the Program is the same.
#include <cmath>
#include <limits>
#include <tuple>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/kernels/heads.h"
#include "real/kernels/kernels.h"
#include "real/kernels/score_places.h"

namespace trainyard {

namespace {

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

enum class Method : std::uint8_t {
  kCpuFlash,
  kCudaFlash,      // 16-bit types, no mask, compute capability 8.0
  kCudaEfficient,  // fp32 too, masks, any capability
  kPlain  // whole scores for the length of the op: fp64 on a GPU, and heads that the others refuse;
          // of LibTorch's general operators, so that it runs on any device
};

Method method_for(const at::Tensor& q, bool has_mask, bool immediate) {
  if (q.is_cpu()) return immediate ? Method::kCpuFlash : Method::kPlain;
  const std::int64_t head_dim = q.size(3);
  if (q.scalar_type() == at::kDouble || head_dim % 8 != 0) return Method::kPlain;
  const bool short_type = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  if (short_type && !has_mask && head_dim <= 256 && cuda_capability(q.device()) >= 80)
    return Method::kCudaFlash;
  return Method::kCudaEfficient;
}

/// What is added to scores [B, 1, Sq, Sk]: of a padding mask [B, Sk], 1: attend, and of a window.
std::optional<at::Tensor> additive_mask(const KernelCall& call, std::size_t i, const at::Tensor& q,
                                        const at::Tensor& k) {
  const OpAttrs& attrs = *call.attrs;
  if (!attrs.has_mask && attrs.attended == 0) return std::nullopt;
  const std::int64_t queries = q.size(2), keys = k.size(2);
  // Rows of 16 elements: the efficient kernel loads them in blocks.
  const auto zeros = [&](std::int64_t batch, std::int64_t rows) {
    return at::zeros({batch, 1, rows, (keys + 15) / 16 * 16}, q.options()).narrow(-1, 0, keys);
  };
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  at::Tensor out;
  if (attrs.attended > 0) {
    out = zeros(1, queries);
    out.masked_fill_(hidden_keys(attrs, queries, keys, q.device()).view({1, 1, queries, keys}),
                     kHidden);
  }
  if (attrs.has_mask) {
    const at::Tensor& mask = call.read(i);
    at::Tensor padding = zeros(mask.size(0), out.defined() ? queries : 1);
    padding.masked_fill_((mask == 0).view({mask.size(0), 1, 1, keys}), kHidden);
    out = out.defined() ? padding.add_(out) : padding;
  }
  return out.expand({q.size(0), 1, queries, keys});
}

std::optional<at::Tensor> for_all_heads(const std::optional<at::Tensor>& mask, std::int64_t heads) {
  if (!mask) return std::nullopt;
  return mask->expand({mask->size(0), heads, mask->size(2), mask->size(3)});
}

/// Scores [B, N, Sq, Sk], scaled and masked, in the type of the log-sum-exp.
at::Tensor whole_scores(const at::Tensor& q, const at::Tensor& k,
                        const std::optional<at::Tensor>& mask, const OpAttrs& attrs,
                        at::ScalarType type) {
  at::Tensor x = product(q.to(type), k.to(type).transpose(2, 3)).mul_(attrs.scale);
  if (mask) x.add_(*mask);
  if (attrs.causal) {
    const at::Tensor hidden =
        at::ones({x.size(2), x.size(3)}, x.options().dtype(at::kBool)).triu_(1);
    x.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }
  return x;
}

struct Attended {
  at::Tensor out;  // [B, N, Sq, H]
  at::Tensor lse;  // [B, N, Sq]
};

Attended attend(Method method, const Projections& in, const std::optional<at::Tensor>& mask,
                const OpAttrs& attrs, at::ScalarType lse_type) {
  const auto& [q, k, v] = in;
  switch (method) {
    case Method::kCpuFlash: {
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, k, v, /*dropout_p=*/0.0, attrs.causal, mask, double{attrs.scale});
      return {out, lse};
    }
    case Method::kCudaFlash: {
      const auto result =
          at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, attrs.causal,
                                                  /*return_debug_mask=*/false, double{attrs.scale});
      return {std::get<0>(result), std::get<1>(result)};
    }
    case Method::kCudaEfficient: {
      const auto result = at::_scaled_dot_product_efficient_attention(
          q, for_query_heads(k, attrs), for_query_heads(v, attrs), for_all_heads(mask, attrs.heads),
          /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, attrs.causal, double{attrs.scale});
      // Its rows are padded to whole blocks of queries.
      return {std::get<0>(result), std::get<1>(result).narrow(2, 0, q.size(2))};
    }
    case Method::kPlain: {
      const at::Tensor x = whole_scores(q, for_query_heads(k, attrs), mask, attrs, lse_type);
      const at::Tensor lse = at::logsumexp(x, {-1});
      const at::Tensor p = (x - lse.unsqueeze(-1)).exp_().to(v.scalar_type());
      return {product(p, for_query_heads(v, attrs)), lse};
    }
  }
  bug("no such method");
}

struct Gradients {
  at::Tensor q, k, v;  // as the projections
};

Gradients attend_backward(Method method, const at::Tensor& grad, const Projections& in,
                          const Attended& saved, const std::optional<at::Tensor>& mask,
                          const OpAttrs& attrs) {
  const auto& [q, k, v] = in;
  switch (method) {
    case Method::kCpuFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad, q, k, v, saved.out, saved.lse, /*dropout_p=*/0.0, attrs.causal, mask,
          double{attrs.scale});
      return {dq, dk, dv};
    }
    case Method::kCudaFlash: {
      const at::Tensor same_lengths;  // undefined: sequences of one length
      const at::Tensor no_seed =
          at::empty({2}, q.options().dtype(at::kUInt64));  // there is no dropout to replay
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
          grad, q, k, v, saved.out, saved.lse, same_lengths, same_lengths, q.size(2), k.size(2),
          /*dropout_p=*/0.0, attrs.causal, no_seed, no_seed, double{attrs.scale});
      return {dq, dk, dv};
    }
    case Method::kCudaEfficient: {
      constexpr std::int64_t kBlock = 32;  // queries
      const std::int64_t padding = (kBlock - q.size(2) % kBlock) % kBlock;
      const at::Tensor lse =
          at::constant_pad_nd(saved.lse, {0, padding}, std::numeric_limits<double>::infinity());
      const at::Tensor no_seed = at::zeros({}, q.options().dtype(at::kLong));
      const at::Tensor bias = for_all_heads(mask, attrs.heads).value_or(at::Tensor{});
      const auto result = at::_scaled_dot_product_efficient_attention_backward(
          grad, q, for_query_heads(k, attrs), for_query_heads(v, attrs), bias, saved.out, lse,
          no_seed, no_seed,
          /*dropout_p=*/0.0, {true, true, true, false}, attrs.causal, double{attrs.scale});
      return {std::get<0>(result), for_kv_heads(std::get<1>(result), attrs),
              for_kv_heads(std::get<2>(result), attrs)};
    }
    case Method::kPlain: {
      // With p the probabilities and d_i = sum_j do_ij o_ij: dv = p^T do, ds = p (do v^T - d), dq =
      // ds k scale.
      const at::ScalarType type = saved.lse.scalar_type();
      const at::Tensor keys = for_query_heads(k, attrs).to(type),
                       values = for_query_heads(v, attrs).to(type);
      const at::Tensor p =
          (whole_scores(q, keys, mask, attrs, type) - saved.lse.unsqueeze(-1)).exp_();
      const at::Tensor wide = grad.to(type);
      const at::Tensor d = at::mul(wide, saved.out.to(type)).sum({-1}, /*keepdim=*/true);
      const at::Tensor ds = at::mul(p, product(wide, values.transpose(2, 3)) - d).mul_(attrs.scale);
      const at::Tensor dk = product(ds.transpose(2, 3), q.to(type));
      const at::Tensor dv = product(p.transpose(2, 3), wide);
      const at::ScalarType result = q.scalar_type();
      return {product(ds, keys).to(result), for_kv_heads(dk, attrs).to(result),
              for_kv_heads(dv, attrs).to(result)};
    }
  }
  bug("no such method");
}

}  // namespace

void flash_attention(KernelCall& call) {
  const Projections in = projections(call, 0);
  const std::optional<at::Tensor> mask =
      additive_mask(call, call.attrs->packed ? 1 : 2, in.q, in.k);
  const Method method = method_for(in.q, mask.has_value(), call.immediate);
  const Attended attended = attend(method, in, mask, *call.attrs, call.write_types[1]);
  call.set(0, by_token(attended.out));
  call.set(1, attended.lse.to(call.write_types[1]));
}

void flash_attention_dx(KernelCall& call) {
  // Reads do, [qkv | q, kv], [mask,] out, lse.
  const OpAttrs& attrs = *call.attrs;
  const Projections in = projections(call, 1);
  std::size_t next = attrs.packed ? 2 : 3;
  const std::optional<at::Tensor> mask = additive_mask(call, next, in.q, in.k);
  if (attrs.has_mask) ++next;
  const Attended saved = {by_head(call.read(next), attrs.heads), call.read(next + 1)};
  const Method method = method_for(in.q, mask.has_value(), call.immediate);
  const Gradients gradients =
      attend_backward(method, by_head(call.read(0), attrs.heads), in, saved, mask, attrs);
  const std::int64_t width = std::int64_t{attrs.heads} * attrs.head_dim;
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  if (!attrs.packed) call.set(0, by_token(gradients.q));
  at::Tensor packed = call.out(attrs.packed ? 0 : 1);
  const std::int64_t offset = attrs.packed ? width : 0;
  if (attrs.packed) packed.narrow(-1, 0, width).copy_(by_token(gradients.q));
  packed.narrow(-1, offset, kv_width).copy_(by_token(gradients.k));
  packed.narrow(-1, offset + kv_width, kv_width).copy_(by_token(gradients.v));
}

}  // namespace trainyard
