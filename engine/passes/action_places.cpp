#include "engine/passes/action_places.h"

namespace trainyard {

Part part_of(ActionPhase phase) {
  switch (phase) {
    case ActionPhase::kForward: return Part::kForward;
    case ActionPhase::kRecompute:
    case ActionPhase::kEarlyRecompute: return Part::kRecompute;
    case ActionPhase::kBackwardWeight: return Part::kWeight;
    default: return Part::kBackward;
  }
}

ActionPlaces::ActionPlaces(const ProgramDraft& draft, const PipelineSchedule& schedule,
                           const Numbered<std::vector<PlannedCall>>& calls)
    : draft_(draft),
      position_(draft.num_stages, schedule.num_microbatches, -1) {
  for (const auto& of_rank : calls) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      for (const Action* action : actions_of(of_rank[i])) {
        position_.of(action->stage, part_of(action->phase), action->microbatch) =
            static_cast<std::int32_t>(i);
      }
    }
  }
}

SegmentId ActionPlaces::segment_of(std::int32_t of_class, const Action& action) const {
  const StageSegments& stage = draft_.segments(of_class, action.stage, action.microbatch);
  // A stage whose R would do nothing has none to call, and its backwards are alike.
  const bool behind = (*this)(action.stage, Part::kRecompute, action.microbatch) >= 0;
  switch (action.phase) {
    case ActionPhase::kForward: return stage.forward;
    case ActionPhase::kBackward: return stage.backward[behind ? 1 : 0];
    case ActionPhase::kBackwardInput: return stage.input[behind ? 1 : 0];
    case ActionPhase::kBackwardWeight: return stage.weight;
    case ActionPhase::kRecompute:
    case ActionPhase::kEarlyRecompute: return stage.recompute;
  }
  return kNoIndex;
}

SegmentId ActionPlaces::segment_of(std::int32_t of_class, const PlannedCall& call) const {
  const SegmentId first = segment_of(of_class, call.action);
  return call.with ? draft_.pairs.at({first, segment_of(of_class, *call.with)}) : first;
}

}  // namespace trainyard
