#include "engine/planner/axis_links.h"

#include <algorithm>
#include <set>
#include <vector>

#include "engine/cluster/network.h"
#include "engine/cost/collective_time.h"

namespace trainyard {

namespace {

constexpr Bytes kSmall = Bytes{1} << 20U, kLarge = Bytes{64} << 20U;

/// How a group of devices lies on the cluster.
GroupLayout layout_of(const std::vector<std::int64_t>& devices, const Network& network) {
  std::set<std::int64_t> nodes, leaves, nics;
  for (const std::int64_t device : devices) {
    nodes.insert(network.node(device));
    leaves.insert(network.leaf(device));
    if (network.node(device) == network.node(devices[0])) nics.insert(network.nic(device));
  }
  GroupLayout out;
  out.ranks = std::ssize(devices);
  out.nodes = std::ssize(nodes);
  out.ranks_per_node = std::max<std::int64_t>(1, out.ranks / out.nodes);
  out.leaves = std::ssize(leaves);
  out.nics = std::ssize(nics);
  if (!network.fabric_needs_routes()) return out;
  std::vector<GroupEdge> ring;
  for (std::int32_t i = 0; i < out.ranks; ++i)
    ring.push_back({i, static_cast<std::int32_t>((i + 1) % out.ranks)});
  out.fabric_ring = out.fabric_spread = network.fabric_seconds(devices, ring, false);
  return out;
}

/// Seconds per byte on an edge, of the busiest link while rings go along the axis everywhere.
double busiest(const std::vector<std::int64_t>& devices, std::int64_t step, std::int64_t size,
               const Network& network) {
  std::vector<GroupEdge> edges;
  for (std::int64_t rank = 0; rank < std::ssize(devices); ++rank) {
    const bool last = rank / step % size == size - 1;
    const std::int64_t next = last ? rank - (size - 1) * step : rank + step;
    edges.push_back({static_cast<std::int32_t>(rank), static_cast<std::int32_t>(next)});
  }
  const Network::Uses uses = network.uses(devices, edges, false);
  double most = 0;
  for (const LinkUse& use : uses.links)
    most = std::max(most, static_cast<double>(use.times) / network.capacity(use.link));
  return most / static_cast<double>(uses.unit);
}

}  // namespace

Numbered<AxisLink> axis_links(const DeviceMesh& mesh, const Axes& tensor, std::int64_t stride,
                              const Cluster& cluster, const PairCosts& pairs) {
  Numbered<AxisLink> out;
  out.assign(mesh.axes.size(), AxisLink{0, 0});
  const Network network(cluster);
  std::vector<std::int64_t> devices;
  for (std::int64_t rank = 0; rank < group_size(mesh, tensor); ++rank)
    devices.push_back(rank * stride);
  std::int64_t step = 1;
  for (auto axis = tensor.rbegin(); axis != tensor.rend(); ++axis) {
    const std::int64_t size = mesh.size(*axis);
    std::vector<std::int64_t> group;
    AxisLink& link = out[*axis];
    for (std::int64_t i = 0; i < size; ++i) {
      group.push_back(devices.begin()[i * step]);
      for (std::int64_t j = 0; j < i && !pairs.empty(); ++j) {
        const PairCost& pair = pairs.begin()[i * step].begin()[j * step];
        link.beta = std::max(link.beta, pair.beta);
      }
    }
    const GroupLayout layout = layout_of(group, network);
    SourceLog log;
    const double small = collective_time(OpKind::kAllGather, kSmall, layout, cluster, log);
    const double large = collective_time(OpKind::kAllGather, kLarge, layout, cluster, log);
    const double share = static_cast<double>(size - 1) / static_cast<double>(size);
    const double slope = (large - small) / (share * static_cast<double>(kLarge - kSmall));
    link.alpha = std::max(0.0, small - slope * share * static_cast<double>(kSmall));
    link.beta = std::max({link.beta, slope, busiest(devices, step, size, network)});
    step *= size;
  }
  return out;
}

}  // namespace trainyard
