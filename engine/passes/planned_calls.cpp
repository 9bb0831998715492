#include "engine/passes/planned_calls.h"

namespace trainyard {

PipelineSchedule without_late_recompute(PipelineSchedule schedule) {
  for (auto& actions : schedule.actions) {
    std::erase_if(actions,
                  [](const Action& action) { return action.phase == ActionPhase::kRecompute; });
  }
  return schedule;
}

boost::container::static_vector<const Action*, 2> actions_of(const PlannedCall& call) {
  boost::container::static_vector<const Action*, 2> actions = {&call.action};
  if (call.with) actions.push_back(&*call.with);
  return actions;
}

Numbered<std::vector<PlannedCall>> planned_calls(const PipelineSchedule& schedule) {
  Numbered<std::vector<PlannedCall>> out(schedule.actions.size());
  for (std::size_t rank = 0; rank < out.size(); ++rank) {
    const auto& actions = schedule.actions[rank];
    out[rank].reserve(actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      PlannedCall call{actions[i], {}};
      if (actions[i].with_next) call.with = actions[++i];
      out[rank].push_back(call);
    }
  }
  return out;
}

}  // namespace trainyard
