// Attention by heads. Features of a head lie side by side: q [B, Sq, N H], k and v [B, Sk, Nkv H],
// packed as [q k v] or [k v] along the last dim. Query heads share key-value heads in runs of N /
// Nkv.
#pragma once

#include "real/kernels/kernel.h"

namespace trainyard {

/// [B, S, heads * H] -> [B, heads, S, H], a view.
inline at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// [B, N, S, H] -> [B, S, N H].
inline at::Tensor by_token(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// k or v [B, Nkv, S, H] for every query head: [B, N, S, H].
inline at::Tensor for_query_heads(const at::Tensor& x, const OpAttrs& attrs) {
  if (attrs.kv_heads == attrs.heads) return x;
  return x.repeat_interleave(attrs.heads / attrs.kv_heads, 1);
}

/// Sums the gradients [B, N, S, H] of query heads that share a key-value head.
inline at::Tensor for_kv_heads(const at::Tensor& x, const OpAttrs& attrs) {
  if (attrs.kv_heads == attrs.heads) return x;
  return x.view({x.size(0), attrs.kv_heads, attrs.heads / attrs.kv_heads, x.size(2), x.size(3)})
      .sum(2);
}

/// [B, N, Sq, Sk] as a batch of matrices.
inline at::Tensor batched(const at::Tensor& x) { return x.reshape({-1, x.size(-2), x.size(-1)}); }

inline at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(batched(a), batched(b)).view({a.size(0), a.size(1), a.size(2), b.size(3)});
}

}  // namespace trainyard
