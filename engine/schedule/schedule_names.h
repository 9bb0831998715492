// Every schedule by its name: those that a Program runs (make_schedule()) and those that so far are
// values only.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

struct ScheduleName {
  std::string_view name;
  std::string_view other_name;  // what peers call it; "": nothing else
  std::string_view description;
};
const std::vector<ScheduleName>& schedule_names();

/// What a schedule may depend on beside its size; 0 and empty: its own default.
struct ScheduleSettings {
  int microbatch_group = 0;     // interleaved: default_group()
  int memory_limit = 0;         // zb-1p, zb-2p: microbatches in flight on a rank; ranks, 2 ranks
  int active_microbatches = 0;  // opportunistic: in the pipeline; ranks + 2
  std::vector<ActionDurations> of_stage;  // [stage], of those that are made for durations; 1, B 2
  double transfer = 0;
  bool steps_overlap =
      false;  // zb-1p, zb-2p: a step may begin where another ends (post-validation)
};

/// Infeasible for a name that is none, and for numbers that the schedule cannot serve. `recompute`:
/// every stage of gpipe, 1f1b and interleaved recomputes inside its backward; the others say
/// themselves.
std::variant<PipelineSchedule, Infeasible> schedule_by_name(const std::string& name, int num_ranks,
                                                            int stages_per_rank,
                                                            int num_microbatches, bool recompute,
                                                            const ScheduleSettings& settings = {});

}  // namespace trainyard
