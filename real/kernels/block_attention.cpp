// Attention to some of the keys, merged with what others have made: one softmax over all of them.
// Queries and keys are runs of positions, which may lie anywhere in the sequence; under a causal
// mask a run of queries sees all of an earlier run of keys, nothing of a later one, and of its own
// what is not behind. So runs are cut at each other's borders, and pairs that see nothing left out.
#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "real/kernels/attend.h"
#include "real/kernels/heads.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// Rows that stand side by side: where they lie among the rank's, and in the sequence.
struct RowRange {
  std::int64_t row = 0;
  IndexRange positions;
};

/// `ranges`, cut where a range of `others` begins or ends.
std::vector<RowRange> runs_of(const IndexRanges& ranges, const IndexRanges& others) {
  std::vector<RowRange> out;
  std::int64_t row = 0;
  for (const IndexRange& range : ranges) {
    std::vector<std::int64_t> borders = {range.begin, range.end};
    for (const IndexRange& other : others) {
      for (const std::int64_t border : {other.begin, other.end})
        if (border > range.begin && border < range.end) borders.push_back(border);
    }
    std::sort(borders.begin(), borders.end());
    for (std::size_t i = 1; i < borders.size(); ++i) {
      const IndexRange part{*(borders.begin() + static_cast<std::ptrdiff_t>(i) - 1),
                            *(borders.begin() + static_cast<std::ptrdiff_t>(i))};
      if (part.size() == 0) continue;
      out.push_back({row, part});
      row += part.size();
    }
  }
  return out;
}

at::Tensor rows_of(const at::Tensor& x, const RowRange& run) {  // [B, N, S, ..]
  return x.narrow(2, run.row, run.positions.size());
}

/// q and [k v] by head, and the runs that they are.
struct Block {
  Projections in;
  std::vector<RowRange> queries, keys;
  OpAttrs attrs;
  bool causal = false;

  Block(const KernelCall& call, std::size_t first) : attrs(*call.attrs), causal(attrs.causal) {
    const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
    const at::Tensor& kv = call.read(first + 1);
    in = {by_head(call.read(first), attrs.heads),
          by_head(kv.narrow(-1, 0, kv_width), attrs.kv_heads),
          by_head(kv.narrow(-1, kv_width, kv_width), attrs.kv_heads)};
    check(call.query_positions != nullptr && call.key_positions != nullptr,
          "blocks know their positions");
    queries = runs_of(*call.query_positions, *call.key_positions);
    keys = runs_of(*call.key_positions, *call.query_positions);
  }

  bool sees(const RowRange& query, const RowRange& key) const {
    return !causal || key.positions.begin <= query.positions.begin;
  }
  /// Sets whether of the pair's own positions those behind are hidden.
  Projections pair(const RowRange& query, const RowRange& key) {
    attrs.causal = causal && key.positions == query.positions;
    return {rows_of(in.q, query), rows_of(in.k, key), rows_of(in.v, key)};
  }
};

/// Both as one softmax's: each weighs as its exponentials do in the sum of all.
Attended merged(const Attended& a, const Attended& b) {
  const at::Tensor lse = at::logaddexp(a.lse, b.lse);
  const auto weighed = [&](const Attended& one) {
    return at::mul(one.out.to(lse.scalar_type()), (one.lse - lse).exp_().unsqueeze(-1));
  };
  return {weighed(a).add_(weighed(b)), lse};
}

}  // namespace

void block_attention(KernelCall& call) {  // reads q, kv[, o, lse so far]
  Block block(call, 0);
  const at::ScalarType lse_type = call.write_types[1];
  const AttentionMethod method = method_for(block.in.q, false, call.immediate);
  const bool goes_on = call.reads.size() > 2;
  at::Tensor out = call.out(0), lse = call.out(1);
  const at::Tensor out_by_head = by_head(out, block.attrs.heads);
  for (const RowRange& query : block.queries) {
    std::optional<Attended> sum;
    if (goes_on)
      sum = Attended{rows_of(by_head(call.read(2), block.attrs.heads), query),
                     rows_of(call.read(3), query)};
    for (const RowRange& key : block.keys) {
      if (!block.sees(query, key)) continue;
      Attended one = attend(method, block.pair(query, key), std::nullopt, block.attrs, lse_type);
      one.lse = one.lse.to(lse_type);
      sum = sum ? merged(*sum, one) : one;
    }
    check(sum.has_value(), "the first block has a key for every query");
    rows_of(out_by_head, query).copy_(sum->out);
    rows_of(lse, query).copy_(sum->lse);
  }
}

void block_attention_dx(KernelCall& call) {  // reads do, q, kv, o, lse of all blocks
  Block block(call, 1);
  const OpAttrs& attrs = *call.attrs;
  const AttentionMethod method = method_for(block.in.q, false, call.immediate);
  const at::Tensor grad = by_head(call.read(0), attrs.heads);
  const at::Tensor out = by_head(call.read(3), attrs.heads), &lse = call.read(4);
  at::Tensor dq = call.out(0), dkv = call.out(1);
  dq.zero_();
  dkv.zero_();
  const std::int64_t kv_width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  const Projections gradients = {by_head(dq, attrs.heads),
                                 by_head(dkv.narrow(-1, 0, kv_width), attrs.kv_heads),
                                 by_head(dkv.narrow(-1, kv_width, kv_width), attrs.kv_heads)};
  for (const RowRange& query : block.queries) {
    const Attended saved = {rows_of(out, query), rows_of(lse, query).contiguous()};
    for (const RowRange& key : block.keys) {
      if (!block.sees(query, key)) continue;
      const Projections pair = block.pair(query, key);
      const Gradients one =
          attend_backward(method, rows_of(grad, query), pair, saved, std::nullopt, block.attrs);
      rows_of(gradients.q, query).add_(one.q);
      rows_of(gradients.k, key).add_(one.k);
      rows_of(gradients.v, key).add_(one.v);
    }
  }
}

}  // namespace trainyard
