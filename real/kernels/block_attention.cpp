// Attention to some of the keys, merged with what others have made: one softmax over all of them.
#include "engine/base/error.h"
#include "real/kernels/attend_runs.h"
#include "real/kernels/heads.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// q and [k v] by head, from operand `first` on.
SequenceRuns block(const KernelCall& call, std::size_t first) {
  const OpAttrs& attrs = *call.attrs;
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  const at::Tensor& kv = call.read(first + 1);
  check(call.query_positions != nullptr && call.key_positions != nullptr,
        "blocks know their positions");
  return {
      {by_head(call.read(first), attrs.heads), by_head(kv.narrow(-1, 0, kv_width), attrs.kv_heads),
       by_head(kv.narrow(-1, kv_width, kv_width), attrs.kv_heads)},
      *call.query_positions,
      *call.key_positions,
      attrs};
}

}  // namespace

void block_attention(KernelCall& call) {  // reads q, kv[, o, lse so far]
  const SequenceRuns runs = block(call, 0);
  const std::int64_t heads = call.attrs->heads;
  std::optional<Attended> so_far;
  if (call.reads.size() > 2) so_far = Attended{by_head(call.read(2), heads), call.read(3)};
  const at::Tensor out = call.out(0), lse = call.out(1);
  attend_runs(call, runs, so_far, {by_head(out, heads), lse}, call.write_types[1]);
}

void block_attention_dx(KernelCall& call) {  // reads do, q, kv, o, lse of all blocks
  const SequenceRuns runs = block(call, 1);
  const OpAttrs& attrs = *call.attrs;
  at::Tensor dq = call.out(0), dkv = call.out(1);
  dq.zero_();
  dkv.zero_();
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  const Projections gradients = {by_head(dq, attrs.heads),
                                 by_head(dkv.narrow(-1, 0, kv_width), attrs.kv_heads),
                                 by_head(dkv.narrow(-1, kv_width, kv_width), attrs.kv_heads)};
  attend_runs_backward(call, runs, by_head(call.read(0), attrs.heads),
                       {by_head(call.read(3), attrs.heads), call.read(4)}, gradients);
}

}  // namespace trainyard
