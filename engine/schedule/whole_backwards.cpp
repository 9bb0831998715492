#include "engine/schedule/whole_backwards.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "engine/base/place_of.h"

namespace trainyard {

namespace {

bool is_followed_by_weight(const std::vector<Action>& actions, std::size_t i) {
  return actions[i].phase == ActionPhase::kBackwardInput && i + 1 < actions.size() &&
         actions[i + 1].phase == ActionPhase::kBackwardWeight;
}

std::size_t last_forward(const std::vector<Action>& actions) {
  const auto last = std::find_if(actions.rbegin(), actions.rend(), [](const Action& action) {
    return action.phase == ActionPhase::kForward;
  });
  return length_between(last, actions.rend());
}

std::vector<Action> joined(const std::vector<Action>& halves) {
  const std::size_t end = last_forward(halves);
  std::vector<Action> out;
  std::deque<std::int32_t> owed;  // microbatches with I done and W not, oldest first
  for (std::size_t i = 0; i < halves.size(); ++i) {
    Action action = halves[i];
    if (i < end && is_followed_by_weight(halves, i)) {
      action.phase = ActionPhase::kBackward;
      ++i;
    } else if (action.phase == ActionPhase::kBackwardInput) {
      owed.push_back(action.microbatch);
    } else if (action.phase == ActionPhase::kBackwardWeight) {
      action.microbatch = owed.front();
      owed.pop_front();
    }
    out.push_back(action);
  }
  return out;
}

}  // namespace

bool whole_is_faster(const Numbered<ActionDurations>& of_stage) {
  return std::any_of(of_stage.begin(), of_stage.end(), [](const ActionDurations& stage) {
    return stage.backward < stage.input + stage.weight;
  });
}

PipelineSchedule with_whole_backwards(PipelineSchedule schedule) {
  for (auto& actions : schedule.actions) actions = joined(std::exchange(actions, {}));
  return schedule;
}

}  // namespace trainyard
