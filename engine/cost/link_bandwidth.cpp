#include "engine/cost/link_bandwidth.h"

#include <algorithm>
#include <limits>

namespace trainyard {

BytesPerSecond inside_bandwidth(const Cluster& cluster, bool across_switches, bool across_sockets,
                                double beyond_pairs) {
  BytesPerSecond bandwidth = cluster.intra.bandwidth;
  const auto pass = [&](BytesPerSecond link) {
    bandwidth = std::min(bandwidth, link / beyond_pairs);
  };
  if (across_switches) pass(cluster.pcie.uplink);
  if (across_sockets && cluster.host.link > 0) pass(cluster.host.link);
  return bandwidth;
}

BytesPerSecond staged_bandwidth(const Cluster& cluster, BytesPerSecond bandwidth,
                                std::int64_t edges) {
  return cluster.p2p ? bandwidth
                     : std::min(bandwidth, cluster.host.memory / (2 * static_cast<double>(edges)));
}

BytesPerSecond trunk_bandwidth(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.oversubscription <= 1) return std::numeric_limits<double>::infinity();
  return cluster.inter.bandwidth * static_cast<double>(fabric.nodes_per_leaf) /
         fabric.oversubscription;
}

BytesPerSecond between_bandwidth(const Cluster& cluster, std::int64_t nics, std::int64_t edges,
                                 bool across_leaves) {
  const BytesPerSecond share =
      cluster.inter.bandwidth * static_cast<double>(nics) / static_cast<double>(cluster.num_nics());
  if (!across_leaves) return share;
  return std::min(share, trunk_bandwidth(cluster) / static_cast<double>(edges));
}

}  // namespace trainyard
