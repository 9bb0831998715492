// Seconds of sends, receives and copies on the links of a cluster, with nobody else on the way.
#pragma once

#include <cstdint>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"

namespace trainyard {

/// Where the two ends of a transfer lie.
enum class Distance : std::uint8_t {
  kSameDevice,
  kSamePair,  // joined by an NVLink bridge
  kSameNode,
  kAcrossSwitches,
  kSameLeaf,
  kAcrossLeaves,
  kAcrossSockets,
  kHost
};

/// One send/receive of `bytes`, both ends ready and nobody else on the way: latency (startup
/// included) and bytes / bandwidth of the slowest link: between nodes the NIC next to the device,
/// or the trunk, or one that takes `fabric_seconds` per byte (0: none such on the way). Between
/// bridged pairs bytes move as a ring's do there, whose slowest edge is such a one.
struct TransferTime {
  Seconds latency = 0;
  Seconds transfer = 0;
};
TransferTime transfer_parts(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log,
                            double fabric_seconds = 0);
Seconds transfer_time(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log);

/// The same from the memory of one host to that of another. Between nodes: as above, over the PCIe
/// uplink of the NIC and the memory of either host (once each, where the cluster says its
/// bandwidth). In a node: start-up and latency of its links; its bytes are read from the memory of
/// one socket and written to that of one, which is half of its bandwidth where they are the same,
/// over the link between them where they are not. There the cluster must say host.memory.
TransferTime host_transfer_parts(Bytes bytes, Distance distance, const Cluster& cluster,
                                 SourceLog& log, double fabric_seconds = 0);

/// One copy between a device and its host: latency, and bytes / bandwidth of `link`, or of the
/// device's slot where that is slower.
TransferTime copy_parts(Bytes bytes, const HostLink& link, const Cluster& cluster, SourceLog& log);

/// One copy between a host and its NVMe drives, of which it has all; `out`: it is written.
TransferTime drive_parts(Bytes bytes, bool out, const Cluster& cluster, SourceLog& log);

}  // namespace trainyard
