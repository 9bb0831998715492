// Which kinds of calls follow one another on a rank: what a call needs gathered at its begin is
// gathered inside the call in front of it (gather_units.h).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Calls of one segment.
struct CallKind {
  std::int32_t stage = 0;
  ActionPhase phase = ActionPhase::kForward;
  bool behind_recompute = false;  // its microbatch has an R on this stage
  std::size_t size = 0;           // of microbatch: ProgramDraft::size_of
  friend auto operator<=>(const CallKind&, const CallKind&) = default;
};

struct CallSuccession {
  std::optional<CallKind> call;  // nullopt: `next` may begin a step
  CallKind next;
  bool same_microbatch = false;
  std::vector<CallKind> without = {};  // only where these, in between, have nothing to do
  friend auto operator<=>(const CallSuccession&, const CallSuccession&) = default;
};

/// Those of `schedule`, each once, ascending. An R, I or W that has nothing to do is no call, which
/// only a draft knows: both with it and without it. `size_of`: as ProgramDraft's.
std::vector<CallSuccession> call_successions(const PipelineSchedule& schedule,
                                             const Numbered<std::size_t>& size_of);

/// With the segments of each class of replicas for these microbatches in place of sizes.
std::set<CallSuccession> successions_of_classes(const ProgramDraft& draft,
                                                const std::vector<CallSuccession>& successions);

/// What ranks call for it; none: nothing.
SegmentId segment_of(const ProgramDraft& draft, const CallKind& kind);

}  // namespace trainyard
