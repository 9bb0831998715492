// The actions of a schedule as the calls that a Program makes of them.
#pragma once

#include <boost/container/static_vector.hpp>
#include <optional>
#include <vector>

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// An action, and the backward that runs with it where it is the forward of a pair.
struct PlannedCall {
  Action action;
  std::optional<Action> with;
};

/// `schedule` without the Rs that wait for the gradient: their backwards recompute inside.
PipelineSchedule without_late_recompute(PipelineSchedule schedule);

/// Those of one call: one, or two.
boost::container::static_vector<const Action*, 2> actions_of(const PlannedCall& call);

/// [pipeline rank][issue order], of such a schedule.
Numbered<std::vector<PlannedCall>> planned_calls(const PipelineSchedule& schedule);

}  // namespace trainyard
