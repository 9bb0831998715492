#include "report/timeline_pattern.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainyard {

namespace {

/// Times of calls that do the same differ by what rounding to ticks leaves.
bool alike(const TimelinePattern& a, const TimelinePattern& b) {
  const auto close = [](std::int64_t x, std::int64_t y) { return std::abs(x - y) <= 1; };
  return a.segment == b.segment &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [&](const PatternOp& x, const PatternOp& y) {
                      return x.name == y.name && x.stream == y.stream && x.group == y.group &&
                             x.module == y.module && x.host == y.host && close(x.start, y.start) &&
                             close(x.duration, y.duration) && close(x.wait, y.wait);
                    });
}

}  // namespace

std::int64_t in_timeline_units(Ticks ticks) {
  return std::llround(static_cast<double>(ticks) / (kTimelineUnit * kTicksPerSecond));
}

TimelinePattern without_ops(const TimelinePattern& whole) {
  TimelinePattern brief{whole.segment, {}};
  std::map<std::int32_t, std::size_t> of_stream;
  for (const PatternOp& op : whole.ops) {
    const auto [at, is_new] = of_stream.try_emplace(op.stream, brief.ops.size());
    if (is_new) {
      brief.ops.push_back(op);
      brief.ops.back().name = kUnnamedOp;
      brief.ops.back().module = 0;
      brief.ops.back().wait = brief.ops.back().host = 0;
    }
    PatternOp& box = brief.ops[at->second];
    const std::int64_t end = std::max(box.start + box.duration, op.start + op.duration);
    box.start = std::min(box.start, op.start);
    box.duration = end - box.start;
    ++box.module;
  }
  return brief;
}

nlohmann::ordered_json to_json(const TimelinePattern& pattern) {
  auto out = nlohmann::ordered_json::array();
  std::int64_t before = 0;
  for (const PatternOp& op : pattern.ops) {
    for (const std::int64_t number :
         {std::int64_t{op.name}, std::int64_t{op.stream}, std::int64_t{op.group},
          std::int64_t{op.module}, op.start - before, op.duration, op.wait,
          std::int64_t{op.host}}) {
      out.push_back(number);
    }
    before = op.start;
  }
  return out;
}

std::size_t TimelinePatterns::find(const TimelinePattern& pattern) const {
  // Hardly two calls of a real run are alike: not worth a long search.
  constexpr std::size_t kLatest = 16;
  const auto found = of_segment_.find(pattern.segment);
  if (found == of_segment_.end()) return kUnknown;
  const std::vector<std::size_t>& known = found->second;
  for (std::size_t i = known.size(); i-- > (known.size() > kLatest ? known.size() - kLatest : 0);) {
    if (alike(patterns_[known[i]], pattern)) return known[i];
  }
  return kUnknown;
}

std::size_t TimelinePatterns::number(TimelinePattern pattern) {
  const std::size_t known = find(pattern);
  if (known != kUnknown) return known;
  of_segment_[pattern.segment].push_back(patterns_.size());
  num_ops_ += pattern.ops.size();
  patterns_.push_back(std::move(pattern));
  return patterns_.size() - 1;
}

}  // namespace trainyard
