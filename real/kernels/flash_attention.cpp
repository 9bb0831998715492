// Attention whose scores are never kept: forward saves of each query row the log of the sum of the
// exponentials, from which backward makes the probabilities again. Operands lie as heads.h says.
//
// LibTorch has a kernel of its own for each kind of device and type; all keep the same two results,
// so that the Program is the same.
#include <limits>

#include "engine/base/error.h"
#include "real/kernels/attend_runs.h"
#include "real/kernels/heads.h"
#include "real/kernels/kernels.h"
#include "real/kernels/score_places.h"

namespace trainyard {

namespace {

/// Views of q, k and v by head in [q k v].
Projections projections_of(const at::Tensor& packed, const OpAttrs& attrs) {
  const std::int64_t width = std::int64_t{attrs.heads} * attrs.head_dim;
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  return {by_head(packed.narrow(-1, 0, width), attrs.heads),
          by_head(packed.narrow(-1, width, kv_width), attrs.kv_heads),
          by_head(packed.narrow(-1, width + kv_width, kv_width), attrs.kv_heads)};
}

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

}  // namespace

namespace {

/// Whole samples, to themselves.
SequenceRuns whole_samples(const KernelCall& call, const Projections& in) {
  const IndexRanges all = {{0, in.q.size(2)}};
  return {in, all, all, *call.attrs};
}

}  // namespace

void flash_attention(KernelCall& call) {
  const Projections in = projections(call, 0);
  if (call.attrs->documents) {
    const at::Tensor out = call.out(0), lse = call.out(1);
    attend_runs(call, whole_samples(call, in), std::nullopt, {by_head(out, call.attrs->heads), lse},
                call.write_types[1]);
    return;
  }
  const std::optional<at::Tensor> mask =
      additive_mask(call, call.attrs->packed ? 1 : 2, in.q, in.k);
  const AttentionMethod method = method_for_whole(in, mask.has_value(), call.immediate);
  const Attended attended = attend(method, in, mask, *call.attrs, call.write_types[1]);
  call.set(0, by_token(attended.out));
  call.set(1, attended.lse.to(call.write_types[1]));
}

void flash_attention_dx(KernelCall& call) {
  // Reads do, [qkv | q, kv], [mask,] out, lse.
  const OpAttrs& attrs = *call.attrs;
  const Projections in = projections(call, 1);
  std::size_t next = attrs.packed ? 2 : 3;
  if (attrs.documents) {
    check(attrs.packed && !attrs.has_mask, "documents are of one sequence, unpadded");
    at::Tensor packed = call.out(0);
    packed.zero_();
    attend_runs_backward(call, whole_samples(call, in), by_head(call.read(0), attrs.heads),
                         {by_head(call.read(2), attrs.heads), call.read(3)},
                         projections_of(packed, attrs));
    return;
  }
  const std::optional<at::Tensor> mask = additive_mask(call, next, in.q, in.k);
  if (attrs.has_mask) ++next;
  const Attended saved = {by_head(call.read(next), attrs.heads), call.read(next + 1)};
  const AttentionMethod method = method_for_whole(in, mask.has_value(), call.immediate);
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
