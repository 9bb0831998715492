#include "engine/exec/lists/called_segments.h"

#include <unordered_map>

#include "engine/base/error.h"
#include "engine/exec/lists/issue_state.h"

namespace trainyard {

bool is_skipped(const Segment& segment, const StreamListOptions& options) {
  if (segment.phase == Phase::kCorrect) return true;  // validations succeed
  if (!options.compute_only) return false;
  if (segment.phase == Phase::kPrepare || segment.phase == Phase::kUpdate) return true;
  return segment.phase == Phase::kCommunicate && segment.slots == 0;
}

CalledSegments::CalledSegments(const Program& program, const Lanes& lanes,
                               const std::vector<Call>& calls, const TimedRank& timed,
                               const StreamListOptions& options) {
  std::unordered_map<SegmentId, std::int32_t> known;
  of_call_.reserve(calls.size());
  for (const Call& call : calls) {
    const auto [it, fresh] = known.try_emplace(call.segment, segments_.next());
    of_call_.push_back(it->second);
    if (!fresh) continue;
    CalledSegment& called = segments_.emplace_back();
    called.skipped = is_skipped(program.segments[call.segment], options);
    if (called.skipped) continue;
    called.timed = &timed.segments.at(call.segment);
    check(called.timed->ops.size() < StreamPoint::kEnd,
          "a segment has fewer ops than can be numbered");
    if (options.whole_runs && options.bodies != 0)
      called.body_ends = find_body_ends(*called.timed, lanes, options.bodies);
  }
}

}  // namespace trainyard
