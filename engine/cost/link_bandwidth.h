// What of a cluster's links is left to one of several flows, before any curve.
#pragma once

#include <cstdint>

#include "engine/cluster/cluster.h"

namespace trainyard {

/// Bandwidth between two devices of one node, of which messages reach the share that a curve says.
/// `beyond_pairs`: that share, where they leave a bridged pair, else 1. It is of the bridge's
/// bandwidth, and what they pass there (uplinks of PCIe switches, the link between sockets) is no
/// bridge: of that they have all.
BytesPerSecond inside_bandwidth(const Cluster& cluster, bool across_switches, bool across_sockets,
                                double beyond_pairs);

/// Bandwidth of each of `edges` messages at once through the memory of one socket, written and
/// read.
BytesPerSecond staged_bandwidth(const Cluster& cluster, BytesPerSecond bandwidth,
                                std::int64_t edges);

/// Bandwidth out of a leaf, one direction; infinite where it holds nothing up.
BytesPerSecond trunk_bandwidth(const Cluster& cluster);

/// Bandwidth of `nics` NICs of a node together. `edges`: how many such flows leave a leaf at once.
BytesPerSecond between_bandwidth(const Cluster& cluster, std::int64_t nics, std::int64_t edges,
                                 bool across_leaves);

}  // namespace trainyard
