#include "engine/schedule/early_recompute.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace trainyard {

namespace {

enum class Recompute { kNo, kLate, kEarly };

/// Puts what `rule(stage, microbatch)` says in front of every backward.
PipelineSchedule recomputed(PipelineSchedule schedule,
                            const std::function<Recompute(int stage, int microbatch)>& rule) {
  for (std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> with;
    for (const Action& action : actions) {
      if (action.phase == ActionPhase::kBackward || action.phase == ActionPhase::kBackwardInput) {
        const Recompute when = rule(action.stage, action.microbatch);
        if (when != Recompute::kNo) {
          const auto phase =
              when == Recompute::kEarly ? ActionPhase::kEarlyRecompute : ActionPhase::kRecompute;
          with.push_back({action.stage, phase, action.microbatch});
        }
      }
      with.push_back(action);
    }
    actions = std::move(with);
  }
  return schedule;
}

/// No forward is left that the recompute could hold up.
bool in_cooldown(const PipelineSchedule& schedule, int stage, int microbatch) {
  return schedule.num_microbatches - microbatch + stage < schedule.num_stages;
}

}  // namespace

PipelineSchedule with_recompute(PipelineSchedule schedule) {
  return recomputed(std::move(schedule), [](int, int) { return Recompute::kLate; });
}

PipelineSchedule pre_recompute_one_f_one_b(int num_stages, int num_microbatches) {
  const PipelineSchedule order = one_f_one_b(num_stages, num_microbatches);
  return recomputed(order, [&](int stage, int mb) {
    return in_cooldown(order, stage, mb) ? Recompute::kEarly : Recompute::kLate;
  });
}

PipelineSchedule last_no_recompute_one_f_one_b(int num_stages, int num_microbatches) {
  const PipelineSchedule order = one_f_one_b(num_stages, num_microbatches);
  const int last = num_stages - 1;
  return recomputed(order, [&](int stage, int mb) {
    if (stage == last) return Recompute::kNo;
    const bool early = stage == last - 1 ? mb == 0 : in_cooldown(order, stage, mb);
    return early ? Recompute::kEarly : Recompute::kLate;
  });
}

PipelineSchedule shifted_critical_path(int num_stages, int num_microbatches) {
  PipelineSchedule order = one_f_one_b(num_stages, num_microbatches);
  const int last = num_stages - 1;
  // 1F1B has F0 F1 B0 F2 there.
  std::vector<Action>& shifted = order.actions[last - 1];
  std::swap(shifted[2], shifted[3]);
  return recomputed(order, [&](int stage, int mb) {
    if (stage == last) return Recompute::kNo;
    bool early = stage == last - 1 ? mb <= 1 : in_cooldown(order, stage, mb);
    if (stage == last - 2 && mb == 0) early = true;
    return early ? Recompute::kEarly : Recompute::kLate;
  });
}

std::vector<int> pipe_buffers(int num_stages, int num_microbatches) {
  std::vector<int> buffers;
  for (int stage = 0; stage < num_stages; ++stage)
    buffers.push_back(std::max(2, std::min(num_stages - stage + 1, num_microbatches)));
  return buffers;
}

}  // namespace trainyard
