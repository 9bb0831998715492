#include "real/kernels/attend.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/kernels/heads.h"

namespace trainyard {

namespace {

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

}  // namespace

AttentionMethod method_for(const at::Tensor& q, bool has_mask, bool immediate) {
  if (q.is_cpu()) return immediate ? AttentionMethod::kCpuFlash : AttentionMethod::kPlain;
  const std::int64_t head_dim = q.size(3);
  if (q.scalar_type() == at::kDouble || head_dim % 8 != 0) return AttentionMethod::kPlain;
  const bool short_type = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  if (short_type && !has_mask && head_dim <= 256 && cuda_capability(q.device()) >= 80)
    return AttentionMethod::kCudaFlash;
  return AttentionMethod::kCudaEfficient;
}

AttentionMethod method_for_whole(const Projections& in, bool has_mask, bool immediate) {
  constexpr std::int64_t kWidestHead = 128;  // of cuDNN's backward on every such device
  constexpr int kHopper = 90;
  const AttentionMethod method = method_for(in.q, has_mask, immediate);
  const bool suits = method == AttentionMethod::kCudaFlash && in.q.size(3) <= kWidestHead &&
                     in.q.size(2) == in.k.size(2) && cuda_capability(in.q.device()) >= kHopper;
  return suits ? AttentionMethod::kCudnn : method;
}

Attended attend(AttentionMethod method, const Projections& in,
                const std::optional<at::Tensor>& mask, const OpAttrs& attrs,
                at::ScalarType lse_type) {
  const auto& [q, k, v] = in;
  switch (method) {
    case AttentionMethod::kCpuFlash: {
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, k, v, /*dropout_p=*/0.0, attrs.causal, mask, double{attrs.scale});
      return {out, lse};
    }
    case AttentionMethod::kCudaFlash: {
      const auto result =
          at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, attrs.causal,
                                                  /*return_debug_mask=*/false, double{attrs.scale});
      return {std::get<0>(result), std::get<1>(result)};
    }
    case AttentionMethod::kCudnn: {
      const auto result = at::_scaled_dot_product_cudnn_attention(
          q, k, v, /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true, /*dropout_p=*/0.0,
          attrs.causal, /*return_debug_mask=*/false, double{attrs.scale});
      return {std::get<0>(result), std::get<1>(result).view({q.size(0), q.size(1), q.size(2)})};
    }
    case AttentionMethod::kCudaEfficient: {
      const auto result = at::_scaled_dot_product_efficient_attention(
          q, for_query_heads(k, attrs), for_query_heads(v, attrs), for_all_heads(mask, attrs.heads),
          /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, attrs.causal, double{attrs.scale});
      // Its rows are padded to whole blocks of queries.
      return {std::get<0>(result), std::get<1>(result).narrow(2, 0, q.size(2))};
    }
    case AttentionMethod::kPlain: {
      const at::Tensor x = whole_scores(q, for_query_heads(k, attrs), mask, attrs, lse_type);
      const at::Tensor lse = at::logsumexp(x, {-1});
      const at::Tensor p = (x - lse.unsqueeze(-1)).exp_().to(v.scalar_type());
      return {product(p, for_query_heads(v, attrs)), lse};
    }
  }
  bug("no such method");
}

Gradients attend_backward(AttentionMethod method, const at::Tensor& grad, const Projections& in,
                          const Attended& saved, const std::optional<at::Tensor>& mask,
                          const OpAttrs& attrs) {
  const auto& [q, k, v] = in;
  switch (method) {
    case AttentionMethod::kCpuFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad, q, k, v, saved.out, saved.lse, /*dropout_p=*/0.0, attrs.causal, mask,
          double{attrs.scale});
      return {dq, dk, dv};
    }
    case AttentionMethod::kCudaFlash: {
      const at::Tensor same_lengths;  // undefined: sequences of one length
      const at::Tensor no_seed =
          at::empty({2}, q.options().dtype(at::kUInt64));  // there is no dropout to replay
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
          grad, q, k, v, saved.out, saved.lse, same_lengths, same_lengths, q.size(2), k.size(2),
          /*dropout_p=*/0.0, attrs.causal, no_seed, no_seed, double{attrs.scale});
      return {dq, dk, dv};
    }
    case AttentionMethod::kCudnn: {
      const at::Tensor none;  // no bias, and sequences of one length
      const at::Tensor no_seed = at::empty({}, q.options().dtype(at::kLong));
      auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
          grad, q, k, v, saved.out, saved.lse.unsqueeze(-1), no_seed, no_seed, none, none, none,
          q.size(2), k.size(2), /*dropout_p=*/0.0, attrs.causal, double{attrs.scale});
      return {dq, dk, dv};
    }
    case AttentionMethod::kCudaEfficient: {
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
    case AttentionMethod::kPlain: {
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

}  // namespace trainyard
