#include "engine/exec/bodies/timed_body.h"

#include <algorithm>

#include "engine/exec/times/time_classes.h"

namespace trainyard {

std::vector<std::uint32_t> find_body_ends(const TimedSegment& segment, const Lanes& lanes,
                                          const LaneSet& allowed) {
  const auto& ops = segment.ops;
  std::vector<std::uint32_t> out(ops.size(), 0);
  const auto lane_of = [&](const TimedOp& op) { return lanes.messages[op.message].lane; };
  // From the back: the next op that no body goes over, and the next collective with where it could
  // end.
  auto barrier = static_cast<std::uint32_t>(ops.size());
  std::uint32_t next = barrier, end_of_next = barrier;
  for (std::uint32_t k = barrier; k-- > 0;) {
    const TimedOp& op = ops[k];
    const bool on_main = op.kind == TimedKind::kFree ||
                         (op.kind == TimedKind::kKernel && op.stream == StreamId::kMain);
    const bool never = op.host_sync || op.work >= 0 || op.pool_taken >= 0 || op.update ||
                       op.num_pools_given > 0 || (!on_main && op.kind != TimedKind::kCollective);
    if (op.kind == TimedKind::kCollective && !op.host_sync) {
      std::uint32_t end = barrier;
      if (next < barrier)
        end =
            ops[next].stream == op.stream && lane_of(ops[next]) == lane_of(op) ? end_of_next : next;
      if (op.stream != StreamId::kMain && allowed.test(lane_of(op).number())) out[k] = end;
      if (!never) {
        next = k;
        end_of_next = end;
      }
    }
    if (never) barrier = next = end_of_next = k;
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
      if (event.begin < course.first_kernel || event.end > course.main)
        map.reaching.push_back(event);
    }
    std::vector<Seconds> exposed(num_kinds, 0);
    gaps.end_layer(exposed, [&](Seconds begin, Seconds end, Seconds issued) {
      map.open.push_back({-1, begin, end, issued});
    });
    for (std::size_t kind = 0; kind < num_kinds; ++kind) {
      if (exposed[kind] > 0)
        map.exposed.emplace_back(static_cast<std::int32_t>(kind), exposed[kind]);
    }
    course.events.clear();
    map.course = std::move(course);
    out.push_back(std::move(map));
  }
  return out;
}

}  // namespace trainyard
