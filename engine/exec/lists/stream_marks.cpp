#include "engine/exec/lists/stream_marks.h"

namespace trainyard {

namespace {

constexpr std::uint32_t kNoMark = ~0U;

Seconds offset(const StreamItem& item, std::uint32_t op) {
  Seconds sum = 0;
  for (std::uint32_t i = 0; i <= op; ++i) sum += item.op[i].duration;
  return sum;
}

}  // namespace

void StreamMarks::begin(ItemNumber per_pass) {
  per_pass_ = per_pass;
  of_end_.assign(per_pass, kNoMark);
  first_inner_.assign(per_pass, -1);
}

MarkRef StreamMarks::mark(const StreamPoint& point) {
  const bool previous = is_of_step_before(point);
  const ItemNumber item = previous ? point.at() : point.at() - per_pass_;
  // A second pass that ends bodies earlier has more items than the first; it is done again, but not
  // before its end.
  if (!of_end_.has(item)) {
    of_end_.resize(item + 1, kNoMark);
    first_inner_.resize(item + 1, -1);
  }
  std::uint32_t& known =
      point.op() == StreamPoint::kEnd ? of_end_[item] : inner_mark(item, point.op());
  if (known == kNoMark) known = num_marks_++;
  return 2 * known + (previous ? 1 : 0);
}

/// Mark of op `op` of an item: those of the same item are a list, ascending.
std::uint32_t& StreamMarks::inner_mark(ItemNumber item, std::uint32_t op) {
  std::int32_t before = -1, at = first_inner_[item];
  while (at >= 0 && inner_[at].op < op) {
    before = at;
    at = inner_[at].next;
  }
  if (at >= 0 && inner_[at].op == op) return inner_[at].mark;
  const std::int32_t fresh = inner_.add({op, kNoMark, at});
  (before < 0 ? first_inner_[item] : inner_[before].next) = fresh;
  return inner_.back().mark;
}

void StreamMarks::settle(StreamList& list) const {
  list.num_marks = num_marks_ + list.issued_at_wait.size();
  list.given.reserve(num_marks_);
  for (const ItemNumber i : list.items.keys()) {
    StreamItem& item = list.items[i];
    if (item.host >= 0) item.host += 2 * static_cast<std::int32_t>(num_marks_);
    if (item.gives_host >= 0) item.gives_host += static_cast<std::int32_t>(num_marks_);
    item.first_given = static_cast<std::uint32_t>(list.given.size());
    for (std::int32_t at = first_inner_[i]; at >= 0; at = inner_[at].next) {
      const Inner& inner = inner_[at];
      list.given.push_back(
          {inner.mark, inner.op, item.kind == ItemKind::kRun ? offset(item, inner.op) : -1});
    }
    if (of_end_[i] != kNoMark) list.given.push_back({of_end_[i], StreamPoint::kEnd, -1});
    item.num_given = static_cast<std::uint32_t>(list.given.size()) - item.first_given;
  }
}

}  // namespace trainyard
