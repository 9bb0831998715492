#include "engine/exec/stream_marks.h"

namespace trainyard {

namespace {

constexpr std::uint32_t kNone = ~0U;

Seconds offset(const StreamItem& item, std::uint32_t op) {
  Seconds sum = 0;
  for (std::uint32_t i = 0; i <= op; ++i) sum += item.op[i].duration;
  return sum;
}

}  // namespace

void StreamMarks::begin(ItemNumber per_pass) {
  per_pass_ = per_pass;
  of_end_.assign(static_cast<std::size_t>(per_pass), kNone);
  first_inner_.assign(static_cast<std::size_t>(per_pass), -1);
}

MarkRef StreamMarks::mark(const StreamPoint& point) {
  const bool previous = is_of_step_before(point);
  const auto item = static_cast<std::size_t>(previous ? point.at() : point.at() - per_pass_);
  // A second pass that ends bodies earlier has more items than the first; it is done again, but not
  // before its end.
  if (item >= of_end_.size()) {
    of_end_.resize(item + 1, kNone);
    first_inner_.resize(item + 1, -1);
  }
  std::uint32_t& known =
      point.op() == StreamPoint::kEnd ? of_end_[item] : inner_mark(item, point.op());
  if (known == kNone) known = num_marks_++;
  return 2 * known + (previous ? 1 : 0);
}

/// Mark of op `op` of an item: those of the same item are a list, ascending.
std::uint32_t& StreamMarks::inner_mark(std::size_t item, std::uint32_t op) {
  std::int32_t before = -1, at = first_inner_[item];
  while (at >= 0 && inner_[static_cast<std::size_t>(at)].op < op) {
    before = at;
    at = inner_[static_cast<std::size_t>(at)].next;
  }
  if (at >= 0 && inner_[static_cast<std::size_t>(at)].op == op)
    return inner_[static_cast<std::size_t>(at)].mark;
  const auto fresh = static_cast<std::int32_t>(inner_.size());
  inner_.push_back({op, kNone, at});
  (before < 0 ? first_inner_[item] : inner_[static_cast<std::size_t>(before)].next) = fresh;
  return inner_.back().mark;
}

void StreamMarks::settle(StreamList& list) const {
  list.num_marks = num_marks_ + list.issued_at_wait.size();
  list.given.reserve(num_marks_);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    StreamItem& item = list.items[i];
    if (item.host >= 0) item.host += 2 * static_cast<std::int32_t>(num_marks_);
    if (item.gives_host >= 0) item.gives_host += static_cast<std::int32_t>(num_marks_);
    item.first_given = static_cast<std::uint32_t>(list.given.size());
    for (std::int32_t at = first_inner_[i]; at >= 0;
         at = inner_[static_cast<std::size_t>(at)].next) {
      const Inner& inner = inner_[static_cast<std::size_t>(at)];
      list.given.push_back(
          {inner.mark, inner.op, item.kind == ItemKind::kRun ? offset(item, inner.op) : -1});
    }
    if (of_end_[i] != kNone) list.given.push_back({of_end_[i], StreamPoint::kEnd, -1});
    item.num_given = static_cast<std::uint32_t>(list.given.size()) - item.first_given;
  }
}

}  // namespace trainyard
