#include "engine/exec/times/time_classes.h"

#include <algorithm>

namespace trainyard {

void GapClassifier::cover(const Span& span, const OpenGap& gap, std::vector<OpenGap>& rest) {
  const Seconds from = std::max(span.start, gap.begin);
  const Seconds until = std::min(span.end, gap.end);
  if (from >= until) {
    rest.push_back(gap);
    return;
  }
  exposed_[span.kind] += until - from;
  if (gap.begin < from) rest.push_back({gap.begin, from, gap.issued});
  if (until < gap.end) rest.push_back({until, gap.end, gap.issued});
}

void GapClassifier::gap(Seconds begin, Seconds end, Seconds issued) {
  scratch_.assign(1, {begin, end, issued});
  for (const Span& span : running_) {
    if (span.end <= begin || span.start >= end) continue;
    rest_.clear();
    for (const OpenGap& part : scratch_) cover(span, part, rest_);
    std::swap(scratch_, rest_);
    if (scratch_.empty()) break;
  }
  open_.insert(open_.end(), scratch_.begin(), scratch_.end());
  std::erase_if(running_, [&](const Span& span) { return span.end <= end; });
}

void GapClassifier::communication(Seconds start, Seconds end, std::int32_t kind, Seconds main) {
  const Span span{start, end, kind};
  const auto first = std::partition_point(open_.begin(), open_.end(),
                                          [&](const OpenGap& gap) { return gap.end <= start; });
  const auto last =
      std::partition_point(first, open_.end(), [&](const OpenGap& gap) { return gap.begin < end; });
  if (first != last) {
    rest_.clear();
    for (auto gap = first; gap != last; ++gap) cover(span, *gap, rest_);
    const auto room =
        static_cast<std::ptrdiff_t>(std::min(rest_.size(), static_cast<std::size_t>(last - first)));
    const auto kept = std::copy_n(rest_.begin(), room, first);
    if (kept != last)
      open_.erase(kept, last);
    else
      open_.insert(last, rest_.begin() + room, rest_.end());
  }
  if (end <= main) return;
  if (running_.size() >= 64) std::erase_if(running_, [&](const Span& s) { return s.end <= main; });
  running_.push_back(span);
}

void GapClassifier::end_step(const std::vector<std::string>& kinds, TimeClasses& into) {
  for (const OpenGap& gap : open_) {
    const Seconds host = std::clamp(gap.issued, gap.begin, gap.end) - gap.begin;
    into.host += host;
    into.bubble += gap.end - gap.begin - host;
  }
  open_.clear();
  for (std::size_t k = 0; k < exposed_.size(); ++k) {
    add_covered(into, kinds[k], exposed_[k]);
    exposed_[k] = 0;
  }
}

}  // namespace trainyard
