// Transfers between the memory of hosts on ranks whose other communication is the GPUs' own.
#pragma once

#include <memory>

#include "real/exec/communicator.h"

namespace trainyard {

/// Communicators of `devices`, and of `hosts` between hosts. What those send has come from the GPU
/// by a copy that may be under way, so the host waits for the current stream before each of their
/// calls, which block it: it issues the ops behind them later. All ranks communicate in one global
/// order, so none waits for one that waits for it.
std::unique_ptr<Transport> with_hosts(std::unique_ptr<Transport> devices,
                                      std::unique_ptr<Transport> hosts);

}  // namespace trainyard
