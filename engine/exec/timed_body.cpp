#include "engine/exec/timed_body.h"

#include <algorithm>

#include "engine/exec/time_classes.h"

namespace trainyard {

std::vector<std::uint32_t> find_body_ends(const TimedSegment& segment, const Lanes& lanes, std::uint64_t allowed) {
  const auto& ops = segment.ops;
  std::vector<std::uint32_t> out(ops.size(), 0);
  const auto lane_of = [&](const TimedOp& op) {
    return static_cast<std::size_t>(lanes.messages[static_cast<std::size_t>(op.message)].lane);
  };
  for (std::uint32_t first = 0; first < ops.size(); ++first) {
    const TimedOp& begin = ops[first];
    if (begin.kind != TimedKind::kCollective || begin.stream == StreamId::kMain || begin.host_sync) continue;
    if ((allowed >> lane_of(begin) & 1U) == 0) continue;
    std::uint32_t k = first + 1;
    for (; k < ops.size(); ++k) {
      const TimedOp& op = ops[k];
      if (op.host_sync || op.pool_taken >= 0 || op.update || op.num_pools_given > 0) break;
      const bool on_main = op.kind == TimedKind::kFree || (op.kind == TimedKind::kKernel && op.stream == StreamId::kMain);
      const bool alike = op.kind == TimedKind::kCollective && op.stream == begin.stream && lane_of(op) == lane_of(begin);
      if (!on_main && !alike) break;
    }
    out[first] = k;
  }
  return out;
}

std::vector<BodyMap> map_body(std::vector<BodyCourse> courses, std::size_t num_kinds) {
  std::vector<BodyMap> out;
  for (BodyCourse& course : courses) {
    BodyMap map;
    GapClassifier gaps(num_kinds);
    for (const BodyEvent& event : course.events) {
      const bool gap = event.kind < 0;
      const bool first_gap = gap && event.end <= course.first_kernel;
      if (first_gap) continue;
      if (gap) {
        gaps.gap(event.begin, event.end, event.issued);
        continue;
      }
      gaps.communication(event.begin, event.end, event.kind, 0);
      if (event.begin < course.first_kernel || event.end > course.main) map.reaching.push_back(event);
    }
    std::vector<Seconds> exposed(num_kinds, 0);
    gaps.end_layer(exposed, [&](Seconds begin, Seconds end, Seconds issued) { map.open.push_back({-1, begin, end, issued}); });
    for (std::size_t kind = 0; kind < num_kinds; ++kind) {
      if (exposed[kind] > 0) map.exposed.emplace_back(static_cast<std::int32_t>(kind), exposed[kind]);
    }
    course.events.clear();
    map.course = std::move(course);
    out.push_back(std::move(map));
  }
  return out;
}

}  // namespace trainyard
