#include "real/kernels/state_space_workspace.h"

#include "engine/graph/state_space_shapes.h"

namespace trainyard {

using std::int64_t;

/// What silu is taken of; of 16-bit types x in fp32, too. Back: the gradient of that, or dx and a
/// product of the two instead; of 16-bit types also dy in fp32, and dx. Weights in that type.
int64_t causal_conv1d_workspace(const OpSizes& s, bool back) {
  const OperandSize& x = s.reads[back ? 1 : 0];
  const OperandSize& w = s.reads[back ? 2 : 1];
  const bool casts = is_16_bit(x.type);
  const int64_t all = back ? (casts ? 4 : 2) : (casts ? 2 : 0);
  return (all * x.elements() + 2 * w.elements() + 4 * x.last()) * accumulation_bytes(x.type) +
         s.copied_results();
}

int64_t chunk_scan_workspace(const OpSizes& s, bool back) {
  const OperandSize& x = s.reads[back ? 1 : 0];
  const OpAttrs& attrs = s.attrs;
  const int64_t batch = x.shape[0], tokens = tokens_of_chunk(attrs, x.shape[1]);
  const int64_t chunks = x.shape[1] / tokens, rows = batch * tokens;
  // A chunk's numbers: decays of pairs of tokens and what is made of them, products of pairs by
  // group, x and the like, b and c and the like, numbers of heads; states.
  const int64_t pairs = rows * tokens * attrs.heads, scores = rows * tokens * attrs.kv_heads;
  const int64_t channels = rows * x.last(), read = rows * attrs.kv_heads * attrs.states;
  const int64_t of_heads = rows * attrs.heads, states = batch * x.last() * attrs.states;
  const int64_t elements =
      back ? 5 * pairs + 3 * scores + 10 * channels + 8 * read + 16 * of_heads +
                 (chunks + 4) * states + tokens * tokens
           : 3 * pairs + scores + 7 * channels + 5 * read + 8 * of_heads + 3 * states;
  return (elements + 16 * attrs.heads) * accumulation_bytes(x.type);
}

}  // namespace trainyard
