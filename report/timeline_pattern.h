// What the ops of a call do, as times since the call's start: calls of one segment run alike again
// and again, and share a pattern (timeline_blob.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "report/timeline.h"

namespace trainyard {

inline constexpr double kTimelineUnit = 1e-9;  // seconds
inline constexpr std::int32_t kUnnamedOp = -1;

/// In kTimelineUnit, rounded.
std::int64_t in_timeline_units(Ticks ticks);

struct PatternOp {
  std::int32_t name = 0, stream = 0, group = -1, module = 0;
  std::int64_t start = 0, duration = 0, wait = 0;  // units; start: since the call's
  std::int32_t host = 0;
};

struct TimelinePattern {
  std::uint32_t segment = 0;
  std::vector<PatternOp> ops;
};

/// One box per stream, from its first op to its last.
TimelinePattern without_ops(const TimelinePattern& whole);

/// 8 numbers an op.
nlohmann::ordered_json to_json(const TimelinePattern& pattern);

/// Patterns by number, each once.
class TimelinePatterns {
 public:
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  /// The number of a pattern like this one; kUnknown: there is none among the latest of its
  /// segment.
  std::size_t find(const TimelinePattern& pattern) const;
  /// The same; the pattern is added where there is none.
  std::size_t number(TimelinePattern pattern);

  std::vector<TimelinePattern>& all() { return patterns_; }
  std::size_t num_ops() const { return num_ops_; }

 private:
  std::vector<TimelinePattern> patterns_;
  std::map<std::uint32_t, std::vector<std::size_t>> of_segment_;
  std::size_t num_ops_ = 0;
};

}  // namespace trainyard
