// Where the host waits for the device between microbatches.
#pragma once

#include "engine/passes/program_draft.h"

namespace trainyard {

/// A framework that synchronises the device around its pipeline transfers
/// (SoftwareProfile::host_waits_for_transfers()) cannot issue ahead of a microbatch's segment: the
/// host waits for the last kernel of every forward and backward segment (of a split backward, I:
/// nothing is sent behind W), and for every receive (`of_transfers`). lower() makes batches of what
/// such a framework sends and receives between two actions. One whose timers wait
/// (host_waits_for_passes()) waits for the kernels alone.
void add_host_waits(ProgramDraft& draft, bool of_transfers);

}  // namespace trainyard
