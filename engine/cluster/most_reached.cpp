#include "engine/cluster/most_reached.h"

#include <algorithm>
#include <cmath>

namespace trainyard {

namespace {

/// Bytes on each edge for a byte of the message, at most, among `ranks` (0: any number).
double volume(const std::string& kind, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  if (kind == "in_switch") return ranks == 0 ? 1.5 : (n + 1) / n;
  if (kind == "collective" || kind == "all_reduce") return ranks == 0 ? 2 : 2 * (n - 1) / n;
  return 1;
}

/// The time of a message grows in straight lines, so that its rate is largest where two of them
/// meet, or in the end.
double largest_rate(const LinkCurve& curve, const LinkCurve::Group& group, double volume,
                    BytesPerSecond bandwidth) {
  double largest = 0;
  double time = 0;  // of the transfer, at a bandwidth of 1
  double efficiency = group.efficiency;
  double begin = 0;
  for (const auto& [size, beyond] : group.efficiency_beyond) {
    const auto end = static_cast<double>(size);
    time += volume * (end - begin) / efficiency;
    const double slow_start = 1 + std::sqrt(static_cast<double>(curve.half_size) / end);
    largest = std::max(largest, volume * end / (group.startup * bandwidth + time * slow_start));
    begin = end;
    efficiency = beyond;
  }
  return std::max(largest, efficiency);
}

void look_at(const LinkCurve& curve, const std::string& kind, const std::string& what,
             BytesPerSecond bandwidth, MostReached& most) {
  const auto see = [&](const LinkCurve::Group& group, std::int64_t ranks) {
    const double share = largest_rate(curve, group, volume(kind, ranks), bandwidth);
    if (share <= most.share) return;
    most = {share, what + (ranks > 0 ? " of " + std::to_string(ranks) : "")};
  };
  see({curve.startup, curve.efficiency, curve.efficiency_beyond}, 0);
  for (const auto& [ranks, efficiency] : curve.efficiency_by_ranks) {
    see({curve.startup, efficiency, curve.efficiency_beyond}, ranks);
  }
  for (const auto& [ranks, group] : curve.by_ranks) see(group, ranks);
}

MostReached most_reached(const LinkClass& links, BytesPerSecond bandwidth) {
  if (bandwidth <= 0 || !std::isfinite(bandwidth)) return {};
  MostReached most{0, ""};
  look_at(links.collective, "collective", "collectives", bandwidth, most);
  look_at(links.point_to_point, "point_to_point", "sends and receives", bandwidth, most);
  for (const auto& [kind, curve] : links.by_kind) look_at(curve, kind, kind, bandwidth, most);
  if (links.in_switch)
    look_at(*links.in_switch, "in_switch", "all-reduces in the switches", bandwidth, most);
  return most;
}

}  // namespace

MostReached most_reached_inside(const Cluster& cluster) {
  return most_reached(cluster.intra, cluster.intra.bandwidth);
}

MostReached most_reached_between(const Cluster& cluster) {
  return most_reached(cluster.inter,
                      cluster.inter.bandwidth / static_cast<double>(cluster.num_nics()));
}

}  // namespace trainyard
