// The last step of a run as trace.json, in the same rows as the simulator's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/trace.h"
#include "engine/program/program.h"
#include "real/comm/rendezvous.h"

namespace trainyard {

/// All ranks call it with their rows; rank 0 writes `folder`/trace.json. Times are counted from the
/// earliest of all ranks' rows, on rank 0's clock.
void save_trace(const std::string& folder, const Program& program, std::int64_t rank, std::int64_t ranks,
                const std::vector<TraceRow>& rows, Rendezvous& rendezvous);

}  // namespace trainyard
