// Every schedule by its name: those that a Program runs (make_schedule()) and those that so far are
// values only.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

struct ScheduleName {
  std::string_view name;
  std::string_view other_name;  // what peers call it; "": nothing else
  std::string_view description;
};
const std::vector<ScheduleName>& schedule_names();

/// Infeasible for a name that is none, and for numbers that the schedule cannot serve. `recompute`:
/// every stage of gpipe, 1f1b and interleaved recomputes inside its backward; the others say
/// themselves.
std::variant<PipelineSchedule, Infeasible> schedule_by_name(const std::string& name, int num_ranks,
                                                            int stages_per_rank,
                                                            int num_microbatches, bool recompute);

}  // namespace trainyard
