// Which devices reach each other's memory without their hosts: over NVLink inside a node, over NICs
// with RDMA between nodes.
#pragma once

#include <cstdint>

#include "engine/cluster/cluster.h"

namespace trainyard {

/// Whether NVLink joins two devices of one node. Bridges join devices 2k and 2k + 1. In a cube mesh
/// of 8 (DGX-1 with V100, its topology dump: every device has 6 links) all of a half of four are
/// joined, and k with k + 4. Of other kinds of NVLink and NVSwitch: all of a node.
bool joined_by_nvlink(const Cluster& cluster, std::int64_t a, std::int64_t b);

/// Whether the network between nodes reads and writes the memory of devices: what the cluster says,
/// else its kind. InfiniBand and RoCE do (NVIDIA GPUDirect RDMA User Manual 1.8: ConnectX-4 and
/// later, "seamlessly using RoCE"), so does EFA on instances with A100 and newer (AWS, user guide
/// of EFA; the preset of p3dn says off), Omni-Path (Intel, host software user guide:
/// PSM2_GPUDIRECT) and an NVLink network, whose switches devices address by themselves. Ethernet
/// does not.
bool has_rdma(const Cluster& cluster);

}  // namespace trainyard
