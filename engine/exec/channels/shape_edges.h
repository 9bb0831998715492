// Who sends to whom in a part of a collective.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cost/collective_time.h"

namespace trainyard {

/// Edges of one shape among `devices` (ascending; their nodes matter for inner and outer rings).
std::vector<GroupEdge> shape_edges(EdgeShape shape, std::int64_t distance,
                                   const std::vector<std::int64_t>& devices,
                                   std::int64_t devices_per_node);

}  // namespace trainyard
