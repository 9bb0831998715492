#include "engine/cost/route_load.h"

#include <algorithm>

namespace trainyard {

double busiest_link(const Network& network, const std::vector<LinkUse>& uses, std::int64_t unit) {
  double slowest = 0;
  for (const LinkUse& use : uses)
    slowest = std::max(slowest, static_cast<double>(use.times) / network.reached(use.link));
  return slowest / static_cast<double>(unit);
}

void bound_by_links(const std::vector<ShapeLoad>& routes, std::vector<CollectivePhase>& phases) {
  for (CollectivePhase& phase : phases) {
    const auto route = std::find_if(routes.begin(), routes.end(), [&](const ShapeLoad& load) {
      return load.shape == phase.shape && load.distance == phase.distance;
    });
    if (route == routes.end()) continue;
    const Seconds least = edge_bytes(phase) * route->seconds_per_byte;
    for (CollectivePhase* spare : {&phase, &phases.front()}) {
      const Seconds moved = std::clamp(least - phase.transfer, 0.0, spare->latency);
      spare->latency -= moved;
      phase.transfer += moved;
    }
    phase.transfer = std::max(phase.transfer, least);
  }
}

}  // namespace trainyard
