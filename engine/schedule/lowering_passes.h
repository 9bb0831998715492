// From a pipeline schedule of compute alone to one with everything written out, as small passes
// over rows of actions: weights gathered and freed, gradients reduced, halves of backwards merged,
// sends and receives put in. Idle slots are left out by every pass; add_send_recv counts them
// first. The passes give what PyTorch's torch.distributed.pipelining gives (its test_schedule.py).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/lowered_action.h"

namespace trainyard {

/// Which stages of a pipeline lie on which ranks.
struct StagePlacement {
  Numbered<int> rank_of;  // [stage]
  int num_stages() const { return static_cast<int>(rank_of.size()); }
  bool together(int stage, int other) const { return rank_of[stage] == rank_of[other]; }
};
StagePlacement placement_of(const PipelineSchedule& schedule);

/// A send and its receive.
struct Message {
  LoweredAction send;
  LoweredAction receive;
};
/// What `action` sends to another rank; nullopt: nothing.
std::optional<Message> message_of(const LoweredAction& action, const StagePlacement& placement);

LoweredRow without_idle(LoweredRow row);

/// UNSHARD in front of a stage's compute and RESHARD behind: of the stages of coming actions, the
/// next `max_active` different ones are kept whole.
LoweredRow add_unshard(const LoweredRow& row, int max_active);

/// REDUCE_GRAD behind the last of `num_microbatches` weight gradients (W or B) of a stage.
LoweredRow add_reduce_grad(const LoweredRow& row, int num_microbatches);

/// An I with its own W behind it becomes a B.
LoweredRow merge_backward(const LoweredRow& row);

/// A send behind every F, B or I whose output another rank needs. Ranks take turns, one action each
/// if it may run; the sender puts the receive at the end of what the other rank has by then, so
/// that no two ranks wait for each other. Infeasible: who is stuck, and what it waits for.
std::variant<std::vector<LoweredRow>, Infeasible> add_send_recv(const std::vector<LoweredRow>& rows,
                                                                const StagePlacement& placement);

/// In how many steps the rows run: in a step ranks take turns, each runs its next word where that
/// may run, and sees what ranks before it did; then those that could not have a second turn.
/// Receives wait for their sends, F, B and I for their receive or, on the same rank, for their
/// producer (on any rank in rows without sends and receives). Infeasible: who is stuck.
std::variant<std::int64_t, Infeasible> count_steps(const std::vector<LoweredRow>& rows,
                                                   const StagePlacement& placement);

/// [stage]: most of its microbatches that are there at once, from the receive (or F) to W or B.
std::vector<int> buffers_per_stage(const std::vector<LoweredRow>& rows, int num_stages);

}  // namespace trainyard
