#include "engine/exec/channels/like_messages.h"

#include <algorithm>
#include <cmath>

namespace trainyard {

bool may_share_links(const Lanes& lanes, const Cluster& cluster, const Network& network) {
  const bool drives = std::any_of(lanes.lanes.begin(), lanes.lanes.end(), [](const Lane& lane) {
    return lane.to_drives() || lane.from_drives();
  });
  return cluster.num_devices > 1 && (drives || network.shares_links());
}

void LikeMessages::share_links(ChannelId channel, std::vector<CollectivePhase>& phases) const {
  for (CollectivePhase& phase : phases) {
    const auto& shapes = folds->edges[channel];
    const auto edges = std::find_if(shapes.begin(), shapes.end(), [&](const ChannelEdges& it) {
      return it.shape == phase.shape && it.distance == phase.distance;
    });
    if (edges == shapes.end()) continue;
    double own = 0, all = 0;  // seconds per byte of an edge, on the busiest link
    for (const ChannelUse& use : edges->uses) {
      const BytesPerSecond reached = network->reached(folds->links[use.link].link);
      if (!std::isfinite(reached)) continue;
      const double seconds = 1 / reached / static_cast<double>(edges->unit);
      own = std::max(own, static_cast<double>(use.times) * seconds);
      all = std::max(all, static_cast<double>(use.load) * seconds);
    }
    if (all > own) phase.transfer = std::max(phase.transfer, edge_bytes(phase) * all);
  }
}

}  // namespace trainyard
