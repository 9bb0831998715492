// What to add to this rank's steady clock to get rank 0's.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/units.h"
#include "real/comm/rendezvous.h"

namespace trainyard {

/// All ranks call it under the same `name`. 0 between processes of one machine, which share the
/// clock; else from the fastest of several exchanges through the store (Cristian 1989), whose error
/// is at most half of its round trip.
Seconds clock_offset(Rendezvous& rendezvous, const std::string& name, std::int64_t rank,
                     std::int64_t ranks);

}  // namespace trainyard
