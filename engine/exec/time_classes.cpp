#include "engine/exec/time_classes.h"

#include <algorithm>

namespace trainyard {

void GapClassifier::cover(const Span& span, const OpenGap& gap, std::vector<OpenGap>& rest) {
  const Seconds from = std::max(span.start, gap.begin);
  const Seconds until = std::min(span.end, gap.end);
  if (from >= until) {
    rest.push_back(gap);
    return;
  }
  exposed_[static_cast<std::size_t>(span.kind)] += until - from;
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
  // Gaps that this span may still cover are the last ones.
  std::size_t first = open_.size();
  while (first > 0 && open_[first - 1].end > start) --first;
  if (first < open_.size() && open_[first].begin < end) {
    rest_.clear();
    for (std::size_t i = first; i < open_.size(); ++i) cover(span, open_[i], rest_);
    open_.resize(first);
    open_.insert(open_.end(), rest_.begin(), rest_.end());
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
    if (exposed_[k] > 0) into.exposed[kinds[k]] += exposed_[k];
    exposed_[k] = 0;
  }
}

}  // namespace trainyard
