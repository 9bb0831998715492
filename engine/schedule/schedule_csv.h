// Schedules as CSV, as PyTorch's torch.distributed.pipelining writes them: a line per rank, a cell
// per action, an empty cell for an idle slot.
//   0F0,0F1,,0B0,,0B1
//   ,1F0,1B0,1F1,1B1,
#pragma once

#include <string>
#include <string_view>

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Stages and microbatches are as many as the cells name; stages lie on the ranks that `on` says;
/// empty: they go round the ranks, or in a V.
/// Cells are 0F0, 0B0, 0I0, 0W0, 0R0, 0R0* and (0F7;7B3)OVERLAP_F_B. Throws ConfigError,
/// "file:line:column:
/// ...", for what is none, for sends, receives and the like, which compile puts in, for actions
/// that are missing, twice or on another rank, and for an order in which ranks wait for each other
/// for ever. `file`: what messages call it.
PipelineSchedule parse_schedule_csv(std::string_view text, const std::string& file,
                                    const StageRanks& on = {});
PipelineSchedule load_schedule_csv(const std::string& path, const StageRanks& on = {});

/// Without idle slots; parse_schedule_csv() gives the same schedule.
std::string schedule_csv(const PipelineSchedule& schedule);

}  // namespace trainyard
