#include "engine/exec/time_classes.h"

#include <algorithm>

namespace trainyard {

namespace {

/// [begin, end) without communication: host until the next op was issued, bubble from then on.
void host_or_bubble(Seconds begin, Seconds end, Seconds issued, TimeClasses& into) {
  const Seconds host = std::clamp(issued, begin, end) - begin;
  into.host += host;
  into.bubble += end - begin - host;
}

}  // namespace

void classify_gaps(const std::vector<MainGap>& gaps, std::vector<CommunicationSpan> spans,
                   const std::vector<std::string>& kinds, TimeClasses& into) {
  std::sort(spans.begin(), spans.end(), [](const CommunicationSpan& a, const CommunicationSpan& b) {
    return a.start < b.start || (a.start == b.start && a.kind < b.kind);
  });
  std::vector<Seconds> exposed(kinds.size(), 0);
  std::size_t first = 0;  // spans before it have ended before every gap still to come
  for (const MainGap& gap : gaps) {
    while (first < spans.size() && spans[first].end <= gap.begin) ++first;
    Seconds at = gap.begin;
    for (std::size_t i = first; i < spans.size() && spans[i].start < gap.end; ++i) {
      const CommunicationSpan& span = spans[i];
      if (span.end <= at) continue;
      if (span.start > at) {
        host_or_bubble(at, span.start, gap.issued, into);
        at = span.start;
      }
      const Seconds until = std::min(span.end, gap.end);
      exposed[static_cast<std::size_t>(span.kind)] += until - at;
      at = until;
      if (at >= gap.end) break;
    }
    if (at < gap.end) host_or_bubble(at, gap.end, gap.issued, into);
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (exposed[k] > 0) into.exposed[kinds[k]] += exposed[k];
  }
}

}  // namespace trainyard
