// How much of a link's nominal bandwidth messages reach at most, by the curves of its class: what
// several that meet on it have together, however slow each of them is by itself. Some curves reach
// a little more than a datasheet says: then the link carries that much.
#pragma once

#include <string>

#include "engine/cluster/cluster.h"

namespace trainyard {

struct MostReached {
  double share = 1;  // of the nominal bandwidth
  std::string what;  // the messages that reach it: "collectives of 8"
};

/// Counts calls with their start-up, any size: volume / (startup + volume / rate) / bandwidth.
MostReached most_reached_inside(const Cluster& cluster);
/// Counts what one NIC carries.
MostReached most_reached_between(const Cluster& cluster);

}  // namespace trainyard
