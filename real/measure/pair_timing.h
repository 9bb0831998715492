// Times messages between every two ranks of this machine, one pair after the other.
#pragma once

#include <cstdint>

#include "engine/cluster/pair_costs.h"
#include "real/comm/rendezvous.h"
#include "real/exec/communicator.h"
#include "real/exec/device.h"

namespace trainyard {

/// All `ranks` ranks call it, and have the same answer: of each pair half the time in which a
/// message goes and comes back, the fastest of several, for what others do on the machine makes it
/// longer only. alpha is the median of five sizes of 4 to 64 bytes, beta what a large message takes
/// beyond it, by its bytes. While two ranks send, the others wait.
PairCosts time_pairs(Device& device, Transport& transport, Rendezvous& rendezvous,
                     std::int64_t rank, std::int64_t ranks);

}  // namespace trainyard
