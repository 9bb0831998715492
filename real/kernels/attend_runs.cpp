// Under a causal mask a run of queries sees all of an earlier run of keys, nothing of a later one,
// and of its own what is not behind. So runs are cut at each other's borders, and at those of
// documents, and pairs that see nothing left out: those further back than the window, too, and of a
// pair that it hides in part the queries and keys at its ends.
#include "real/kernels/attend_runs.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

/// Rows that stand side by side: where they lie among the rank's, and in the sequence.
struct RowRange {
  std::int64_t row = 0;
  IndexRange positions;

  RowRange part(std::int64_t begin, std::int64_t end) const {  // positions
    return {row + begin - positions.begin, {begin, end}};
  }
};

/// `ranges`, cut at `borders`, ascending, too.
std::vector<RowRange> cut_at(const IndexRanges& ranges, const std::vector<std::int64_t>& borders) {
  std::vector<RowRange> out;
  std::int64_t row = 0;
  for (const IndexRange& range : ranges) {
    std::int64_t begin = range.begin;
    const auto add_up_to = [&](std::int64_t end) {
      out.push_back({row, {begin, end}});
      row += end - begin;
      begin = end;
    };
    for (const std::int64_t border : borders)
      if (border > begin && border < range.end) add_up_to(border);
    if (range.end > begin) add_up_to(range.end);
  }
  return out;
}

at::Tensor rows_in(const at::Tensor& x, const RowRange& run) {  // [B, N, S, ..]
  return x.narrow(2, run.row, run.positions.size());
}

/// A run of queries and one of keys, of which each query sees one or more.
struct Pair {
  RowRange query, key;
  OpAttrs attrs;                   // causal: those behind are hidden
  std::optional<at::Tensor> mask;  // of a window
};

/// The runs of some samples, whose documents have equal borders.
class RunPairs {
 public:
  RunPairs(const SequenceRuns& runs, std::vector<std::int64_t> borders)
      : attrs_(runs.attrs),
        documents_(std::move(borders)) {
    std::vector<std::int64_t> all = documents_;
    for (const IndexRanges* ranges : {&runs.queries, &runs.keys}) {
      for (const IndexRange& range : *ranges) all.insert(all.end(), {range.begin, range.end});
    }
    std::sort(all.begin(), all.end());
    queries_ = cut_at(runs.queries, all);
    keys_ = cut_at(runs.keys, all);
  }

  const std::vector<RowRange>& queries() const { return queries_; }
  const std::vector<RowRange>& keys() const { return keys_; }

  /// nullopt: the queries see none of the keys. `like`: a tensor of the kind that a mask is of.
  std::optional<Pair> pair(const RowRange& query, const RowRange& key, const at::Tensor& like) {
    if (document_of(query) != document_of(key)) return std::nullopt;
    Pair out{query, key, attrs_, std::nullopt};
    out.attrs.causal = attrs_.causal && key.positions == query.positions;
    if (!attrs_.causal) return out;
    if (key.positions.begin > query.positions.begin) return std::nullopt;
    if (attrs_.attended > 0 && !narrow(out, like)) return std::nullopt;
    return out;
  }

 private:
  std::ptrdiff_t document_of(const RowRange& run) const {
    return std::upper_bound(documents_.begin(), documents_.end(), run.positions.begin) -
           documents_.begin();
  }

  /// Leaves out what the window hides wholly; false: that is all.
  bool narrow(Pair& pair, const at::Tensor& like) const {
    const std::int64_t window = attrs_.attended;
    const IndexRange queries = pair.query.positions, keys = pair.key.positions;
    const std::int64_t last = std::min(queries.end, keys.end + window - 1);
    const std::int64_t first = std::max(keys.begin, queries.begin - window + 1);
    if (last <= queries.begin || first >= keys.end) return false;
    pair.query = pair.query.part(queries.begin, last);
    pair.key = pair.key.part(first, keys.end);
    if (first > last - 1 - window) return true;
    const auto places = [&](const RowRange& run) {
      return at::arange(run.positions.begin, run.positions.end, like.options().dtype(at::kLong));
    };
    const at::Tensor back = places(pair.query).unsqueeze(1) - places(pair.key).unsqueeze(0);
    at::Tensor hidden = back >= window;
    if (pair.attrs.causal) hidden.logical_or_(back < 0);
    pair.attrs.causal = false;
    // Rows of 16 elements: the efficient kernel loads them in blocks.
    const std::int64_t rows = back.size(0), width = back.size(1);
    const at::Tensor mask =
        at::zeros({1, 1, rows, (width + 15) / 16 * 16}, like.options()).narrow(-1, 0, width);
    mask.masked_fill_(hidden.view({1, 1, rows, width}), kHiddenScore);
    pair.mask = mask.expand({like.size(0), 1, rows, width});
    return true;
  }

  OpAttrs attrs_;
  std::vector<std::int64_t> documents_;
  std::vector<RowRange> queries_, keys_;
};

/// Calls visit(first sample, number of samples, pairs): of each sample alone where they have
/// documents of their own.
template <typename Visit>
void for_samples(const KernelCall& call, const SequenceRuns& runs, const Visit& visit) {
  const std::int64_t samples = runs.in.q.size(0);
  if (!runs.attrs.documents) return visit(std::int64_t{0}, samples, RunPairs(runs, {}));
  for (std::int64_t s = 0; s < samples; ++s)
    visit(s, std::int64_t{1}, RunPairs(runs, call.document_borders_of(s)));
}

Projections samples_of(const Projections& all, std::int64_t first, std::int64_t number) {
  return {all.q.narrow(0, first, number), all.k.narrow(0, first, number),
          all.v.narrow(0, first, number)};
}

Projections rows_in(const Projections& all, const Pair& pair) {
  return {rows_in(all.q, pair.query), rows_in(all.k, pair.key), rows_in(all.v, pair.key)};
}

/// Both as one softmax's: each weighs as its exponentials do in the sum of all.
Attended merged(const Attended& a, const Attended& b) {
  const at::Tensor lse = at::logaddexp(a.lse, b.lse);
  const auto weighed = [&](const Attended& one) {
    return at::mul(one.out.to(lse.scalar_type()), (one.lse - lse).exp_().unsqueeze(-1));
  };
  return {weighed(a).add_(weighed(b)), lse};
}

/// Merges what some rows of a run of queries have seen with what they saw before.
void add_seen(std::optional<Attended>& sum, Attended one, const RowRange& query,
              const RowRange& rows) {
  if (rows.positions == query.positions) {
    sum = sum ? merged(*sum, one) : std::move(one);
    return;
  }
  const std::int64_t all = query.positions.size();
  const RowRange part{rows.row - query.row, rows.positions};
  if (!sum) {
    std::vector<std::int64_t> out = one.out.sizes().vec(), lse = one.lse.sizes().vec();
    out[2] = lse[2] = all;
    sum =
        Attended{at::zeros(out, one.out.options()), at::full(lse, kHiddenScore, one.lse.options())};
  }
  const Attended both = merged({rows_in(sum->out, part), rows_in(sum->lse, part)}, one);
  // A copy, in the type of sums: what was seen so far may be what another block made.
  sum->out = sum->out.to(both.out.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  sum->lse = sum->lse.clone();
  rows_in(sum->out, part).copy_(both.out);
  rows_in(sum->lse, part).copy_(both.lse);
}

}  // namespace

void attend_runs(const KernelCall& call, const SequenceRuns& runs,
                 const std::optional<Attended>& so_far, const Attended& to,
                 at::ScalarType lse_type) {
  for_samples(call, runs, [&](std::int64_t first, std::int64_t number, RunPairs pairs) {
    const Projections in = samples_of(runs.in, first, number);
    const auto rows = [&](const at::Tensor& x, const RowRange& run) {
      return rows_in(x.narrow(0, first, number), run);
    };
    for (const RowRange& query : pairs.queries()) {
      std::optional<Attended> sum;
      if (so_far) sum = Attended{rows(so_far->out, query), rows(so_far->lse, query)};
      for (const RowRange& key : pairs.keys()) {
        const std::optional<Pair> pair = pairs.pair(query, key, in.q);
        if (!pair) continue;
        const AttentionMethod method = method_for(in.q, pair->mask.has_value(), call.immediate);
        Attended one = attend(method, rows_in(in, *pair), pair->mask, pair->attrs, lse_type);
        one.lse = one.lse.to(lse_type);
        add_seen(sum, std::move(one), query, pair->query);
      }
      check(sum.has_value(), "the first block has a key for every query");
      rows(to.out, query).copy_(sum->out);
      rows(to.lse, query).copy_(sum->lse);
    }
  });
}

void attend_runs_backward(const KernelCall& call, const SequenceRuns& runs, const at::Tensor& grad,
                          const Attended& saved, const Projections& gradients) {
  for_samples(call, runs, [&](std::int64_t first, std::int64_t number, RunPairs pairs) {
    const Projections in = samples_of(runs.in, first, number),
                      to = samples_of(gradients, first, number);
    const auto rows = [&](const at::Tensor& x, const RowRange& run) {
      return rows_in(x.narrow(0, first, number), run);
    };
    for (const RowRange& query : pairs.queries()) {
      for (const RowRange& key : pairs.keys()) {
        const std::optional<Pair> pair = pairs.pair(query, key, in.q);
        if (!pair) continue;
        const AttentionMethod method = method_for(in.q, pair->mask.has_value(), call.immediate);
        const Attended seen = {rows(saved.out, pair->query),
                               rows(saved.lse, pair->query).contiguous()};
        const Gradients one = attend_backward(method, rows(grad, pair->query), rows_in(in, *pair),
                                              seen, pair->mask, pair->attrs);
        rows_in(to.q, pair->query).add_(one.q);
        rows_in(to.k, pair->key).add_(one.k);
        rows_in(to.v, pair->key).add_(one.v);
      }
    }
  });
}

}  // namespace trainyard
