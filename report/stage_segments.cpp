#include "report/stage_segments.h"

namespace trainyard {

StageSegments::StageSegments(const Program& program, const Costs& costs)
    : costs_(costs.ops.rbegin()->second) {  // of the fastest
  for (const SegmentId id : program.segments.keys()) {
    const Segment& segment = program.segments[id];
    if (segment.slots > 1) continue;
    const auto [longest, is_new] = longest_.try_emplace({segment.stage, segment.phase}, id);
    if (!is_new && time(id) > time(longest->second)) longest->second = id;
  }
}

std::vector<SegmentId> StageSegments::backward(std::int32_t stage) const {
  const SegmentId whole = find(stage, Phase::kBackward);
  const SegmentId input = find(stage, Phase::kBackwardInput);
  const SegmentId weight = find(stage, Phase::kBackwardWeight);
  std::vector<SegmentId> out = {whole};
  if (time(input) + time(weight) > time(whole)) out = {input, weight};
  out.push_back(find(stage, Phase::kRecompute));
  std::erase(out, SegmentId(kNoIndex));
  return out;
}

Seconds StageSegments::time(SegmentId segment) const {
  Seconds sum = 0;
  if (segment == kNoIndex) return sum;
  for (const OpCost& op : costs_[segment]) sum += op.kernel;
  return sum;
}

SegmentId StageSegments::find(std::int32_t stage, Phase phase) const {
  const auto found = longest_.find({stage, phase});
  return found == longest_.end() ? SegmentId(kNoIndex) : found->second;
}

}  // namespace trainyard
