// Attention whose scores are kept: [B, N, Sq, Sk]. Operands lie as heads.h says.
#include <cmath>
#include <limits>

#include "real/cuda/cuda.h"
#include "real/kernels/heads.h"
#include "real/kernels/kernels.h"
#include "real/kernels/score_places.h"

namespace trainyard {

void scores(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor q = by_head(call.read(0), attrs.heads);
  const at::Tensor k = for_query_heads(by_head(call.read(1), attrs.kv_heads), attrs);
  if (q.is_cuda() && attrs.scale != 1) {  // scaled by the product itself
    const at::Tensor a = batched(q), b = batched(k.transpose(2, 3));
    at::Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    out.baddbmm_(a, b, /*beta=*/0, /*alpha=*/attrs.scale);
    return call.set(0, out.view({q.size(0), q.size(1), q.size(2), k.size(2)}));
  }
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

namespace {

/// Where query i does not see key j because they are of two documents, [B, 1, S, S].
at::Tensor other_documents(const KernelCall& call, std::int64_t samples, std::int64_t length) {
  const at::TensorOptions type(at::kLong);
  const at::Tensor places = at::arange(0, length, type);
  std::vector<at::Tensor> documents;
  for (std::int64_t s = 0; s < samples; ++s) {
    const at::Tensor begins = at::tensor(call.document_borders_of(s), type);
    documents.push_back(at::searchsorted(begins, places, /*out_int32=*/false, /*right=*/true));
  }
  const at::Tensor of = at::stack(documents).to(call.device);
  return at::ne(of.view({samples, 1, length, 1}), of.view({samples, 1, 1, length}));
}

/// Where queries do not see keys of scores [B, N, Sq, Sk], by as many dims; undefined: they see
/// all, or these are no scores.
at::Tensor hidden_scores(const KernelCall& call, const at::Tensor& scores) {
  const OpAttrs& attrs = *call.attrs;
  if (!attrs.causal && attrs.attended == 0 && !attrs.has_mask && !attrs.documents) return {};
  const std::int64_t queries = scores.size(2), keys = scores.size(3);
  at::Tensor hidden;
  const auto hide = [&](const at::Tensor& more) {
    hidden = hidden.defined() ? at::logical_or(hidden, more) : more;
  };
  if (attrs.causal || attrs.attended > 0)
    hide(hidden_keys(attrs, queries, keys, scores.device()).view({1, 1, queries, keys}));
  if (attrs.has_mask) hide((call.read(1) == 0).view({scores.size(0), 1, 1, keys}));
  if (attrs.documents) hide(other_documents(call, scores.size(0), keys));
  return hidden;
}

/// Whether no queries but those before a key are kept from it.
bool hides_later_keys_alone(const OpAttrs& attrs) {
  return attrs.causal && attrs.attended == 0 && !attrs.has_mask && !attrs.documents;
}

/// By a GPU's own kernel. False: there is none.
bool softmax_at_once(KernelCall& call, const at::Tensor& x, bool causal) {
  if (!contiguous_on_gpu({x}) || call.write_types[0] != x.scalar_type()) return false;
  at::Tensor y = call.out(0);
  if (!y.is_contiguous()) return false;
  softmax_on_cuda(x, causal, y);
  return true;
}

}  // namespace

void softmax(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  at::Tensor x = call.read(0);
  if (attrs.alibi == 0 && hides_later_keys_alone(attrs) &&
      softmax_at_once(call, x, /*causal=*/true))
    return;
  const auto type = x.scalar_type();
  if (attrs.alibi != 0) {  // in a type that tells far keys from their neighbours
    const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
    x = x.to(wide, /*non_blocking=*/false, /*copy=*/true);
    const ShardPlace& place = call.read_places[0];
    subtract_distances(x, attrs.alibi, place.start[1], place.whole[1]);
  }
  if (const at::Tensor hidden = hidden_scores(call, x); hidden.defined()) {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    x = attrs.alibi != 0 ? x.masked_fill_(hidden, kHidden) : x.masked_fill(hidden, kHidden);
  }
  if (softmax_at_once(call, x, /*causal=*/false)) return;
  call.set(0, at::_softmax(x, -1, /*half_to_float=*/false).to(type));
}

void softmax_dx(KernelCall& call) {  // reads dp, p
  const at::Tensor &dp = call.read(0), &p = call.read(1);
  if (contiguous_on_gpu({dp, p}) && dp.scalar_type() == p.scalar_type() &&
      call.write_types[0] == p.scalar_type()) {
    if (at::Tensor dx = call.out(0); dx.is_contiguous())
      return softmax_dx_on_cuda(dp, p, hides_later_keys_alone(*call.attrs), dx);
  }
  call.set(0,
           at::_softmax_backward_data(call.read(0), call.read(1), -1, call.read(1).scalar_type()));
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
at::Tensor relative_buckets(std::int64_t queries, std::int64_t keys, std::int64_t buckets,
                            bool causal) {
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
            exact + static_cast<std::int64_t>(share * static_cast<float>(count - exact)),
            count - 1);
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
  const at::Tensor index =
      relative_buckets(grad.size(1), grad.size(2), table.size(0), call.attrs->causal);
  const at::Tensor rows = grad.reshape({grad.size(0), -1}).t().to(table.scalar_type());
  if (!call.immediate) {
    table.index_put_({index.to(grad.device())}, rows,
                     /*accumulate=*/true);  // in the same order every time
  } else {
    table.index_add_(0, index, rows);
  }
}

}  // namespace trainyard
