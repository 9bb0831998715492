// How long the links on the way of some messages take for each byte, and so how fast they can be at
// best.
//
// Closed forms (collective_time.h, transfer_time.h) count ranks, nodes and NICs. Where rings pass a
// link more often than such numbers tell (an uplink to a NIC behind another switch, the memory of a
// host), the route does: no message is faster than its busiest link.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cost/collective_time.h"

namespace trainyard {

/// What edges of one shape that are active together are for their busiest link.
struct ShapeLoad {
  EdgeShape shape = EdgeShape::kChain;
  std::int64_t distance = 1;
  double seconds_per_byte = 0;  // for each byte on every edge; 0: nothing is passed
  friend auto operator<=>(const ShapeLoad&, const ShapeLoad&) = default;
};

/// Seconds that the busiest link of `uses` takes per byte on an edge, where every edge carries
/// `unit` bytes, at all that messages reach there.
double busiest_link(const Network& network, const std::vector<LinkUse>& uses, std::int64_t unit);

/// Lengthens the transfer of each phase to what its busiest link takes for the bytes of an edge
/// (edge_bytes()). What a curve has put into the start-up is transfer first: a call as a whole
/// becomes longer only where it would be faster than its links.
void bound_by_links(const std::vector<ShapeLoad>& routes, std::vector<CollectivePhase>& phases);

}  // namespace trainyard
