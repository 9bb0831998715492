// Where each action of a schedule stands in its rank's list of calls, and which segment it calls.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/passes/planned_calls.h"
#include "engine/passes/program_draft.h"
#include "engine/schedule/by_action.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// What a stage does once for a microbatch: its place in the list of the rank.
enum class Part : std::uint8_t { kForward, kRecompute, kBackward, kWeight };
inline constexpr int kNumParts = 4;

/// I counts as the backward: it sends what a backward sends.
Part part_of(ActionPhase phase);

class ActionPlaces {
 public:
  /// `schedule` is one of calls (without_late_recompute()); all three outlive this.
  ActionPlaces(const ProgramDraft& draft, const PipelineSchedule& schedule,
               const Numbered<std::vector<PlannedCall>>& calls);

  /// Index of the action's call on its rank; -1: there is none.
  std::int32_t operator()(std::int32_t stage, Part part, Microbatch mb) const {
    return position_.of(stage, part, mb);
  }

  /// What ranks of a class of the draft call for it.
  SegmentId segment_of(std::int32_t of_class, const Action& action) const;
  SegmentId segment_of(std::int32_t of_class,
                       const PlannedCall& call) const;  // of a pair that both share

 private:
  const ProgramDraft& draft_;
  ByAction<Part, kNumParts, std::int32_t> position_;  // index on its rank
};

}  // namespace trainyard
