#include "engine/cluster/communication_matrix.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

using Joined = CommunicationLevel::Joined;

/// NVLinks between the devices of a DGX-1V, two of six at most (nvidia-smi topo -m).
constexpr std::int64_t kCubeDevices = 8;
constexpr std::array<std::array<int, kCubeDevices>, kCubeDevices> kCubeLinks = {{
    {0, 1, 1, 2, 2, 0, 0, 0},
    {1, 0, 2, 1, 0, 2, 0, 0},
    {1, 2, 0, 2, 0, 0, 1, 0},
    {2, 1, 2, 0, 0, 0, 0, 1},
    {2, 0, 0, 0, 0, 1, 1, 2},
    {0, 2, 0, 0, 1, 0, 2, 1},
    {0, 0, 1, 0, 1, 2, 0, 2},
    {0, 0, 0, 1, 2, 1, 2, 0},
}};
constexpr double kMostCubeLinks = 2, kLinksOfCubeDevice = 6;

class DividedCluster {
 public:
  explicit DividedCluster(const Cluster& cluster) : cluster_(cluster), left_(cluster.num_devices) {}

  std::variant<CommunicationMatrix, Infeasible> run() {
    if (left_ != cluster_.num_nodes * cluster_.devices_per_node) {
      const bool one = cluster_.num_nodes == 1;
      return Infeasible{(one ? std::string("its node")
                             : "the last of " + std::to_string(cluster_.num_nodes) + " nodes") +
                        " is part-filled, and its links are shared by fewer devices"};
    }
    add_fabric();
    add_node();
    if (!problem_.empty()) return Infeasible{problem_};
    std::erase_if(levels_, [](const CommunicationLevel& level) { return level.units == 1; });
    return std::move(levels_);
  }

 private:
  /// Units of so many devices, of which the unit before has as many as fit.
  void add(const std::string& unit, std::int64_t devices, BytesPerSecond group,
           BytesPerSecond between, Joined joined = Joined::kAll) {
    if (devices >= left_) return;  // one unit has all
    if (left_ % devices != 0) {
      problem_ = "units of " + std::to_string(devices) + " devices (" + unit + ") do not divide " +
                 std::to_string(left_);
      return;
    }
    levels_.push_back({unit, left_ / devices, devices, group, between, joined});
    left_ = devices;
  }

  void add_fabric() {
    const Fabric& fabric = cluster_.fabric;
    const std::int64_t per_node = cluster_.devices_per_node;
    const BytesPerSecond of_node = cluster_.inter.bandwidth;
    const std::int64_t of_leaf = fabric.nodes_per_leaf * per_node;
    const BytesPerSecond trunk =
        of_node * static_cast<double>(fabric.nodes_per_leaf) / fabric.oversubscription;
    if (fabric.kind == "torus") return add_torus();
    if (fabric.kind == "dragonfly") {
      const std::int64_t routers = fabric.routers_per_group, of_group = routers * of_leaf;
      const std::int64_t groups = std::max<std::int64_t>(1, left_ / of_group);
      add("group", of_group, fabric.global_link * static_cast<double>(groups - 1),
          fabric.global_link);
      add("router", of_leaf, fabric.link * static_cast<double>(routers - 1), fabric.link);
    } else if (fabric.kind != "single-switch") {
      if (fabric.leaves_per_pod > 0 && fabric.oversubscription * fabric.pod_oversubscription > 1) {
        const BytesPerSecond of_pod =
            trunk * static_cast<double>(fabric.leaves_per_pod) / fabric.pod_oversubscription;
        add("pod", fabric.leaves_per_pod * of_leaf, of_pod, of_pod);
      }
      if (fabric.oversubscription > 1) add("leaf", of_leaf, trunk, trunk);
    }
    add("node", per_node, of_node, of_node);
  }

  /// Each dimension is a ring of units that have the dimensions inside it. Two links lead from one
  /// of two units to the other, of which the shortest way takes one.
  void add_torus() {
    const Fabric& fabric = cluster_.fabric;
    std::int64_t nodes = 1;
    for (const std::int64_t size : fabric.dimensions) nodes *= size;
    for (std::size_t d = fabric.dimensions.size(); d-- > 0;) {
      const std::int64_t size = fabric.dimensions[d];
      const std::int64_t here = left_ / cluster_.devices_per_node;
      const std::int64_t around = nodes;
      nodes /= size;
      if (here > nodes && here < around) {
        problem_ = std::to_string(here) + " nodes fill a part of the torus's rings of " +
                   std::to_string(around) + ", whose links then join unlike numbers of them";
        return;
      }
      const BytesPerSecond neighbours = fabric.link * static_cast<double>(nodes);
      const BytesPerSecond nics = cluster_.inter.bandwidth * static_cast<double>(nodes);
      const std::string axis(1, "xyz"[d]);
      add(nodes == 1 ? "node" : "slice of the torus along " + axis,
          nodes * cluster_.devices_per_node, std::min(nics, (size > 2 ? 2 : 1) * neighbours),
          std::min(nics, neighbours), size > 3 ? Joined::kRing : Joined::kAll);
    }
  }

  void add_node() {
    const LinkClass& link = cluster_.intra;
    const std::int64_t devices = cluster_.devices_per_node;
    const HostMemory& host = cluster_.host;
    const PcieTree& pcie = cluster_.pcie;
    if (host.sockets > 1 && host.link > 0)
      add("socket", devices / host.sockets, host.link, host.link);
    if (pcie.switches > 1) add("PCIe switch", devices / pcie.switches, pcie.uplink, pcie.uplink);
    if (link.kind == "nvlink-bridge") {
      const BytesPerSecond beyond = link.bandwidth * largest_share(link.collective, 3);
      add("bridged pair", 2, beyond, beyond);
    }
    if (link.kind == "nvlink" && devices > 1)  // each joined to every other
      return add("device", 1, link.bandwidth, link.bandwidth / static_cast<double>(devices - 1));
    if (link.kind == "nvlink-cube-mesh" && devices == kCubeDevices)
      return add("device", 1, link.bandwidth, link.bandwidth * kMostCubeLinks / kLinksOfCubeDevice,
                 Joined::kCubeMesh);
    add("device", 1, link.bandwidth, link.bandwidth);
  }

  /// What of the nominal bandwidth the largest messages of groups of so many ranks reach.
  static double largest_share(const LinkCurve& curve, std::int64_t ranks) {
    const auto of = curve.by_ranks.upper_bound(ranks);
    if (of == curve.by_ranks.begin()) return curve.efficiency;
    const LinkCurve::Group& group = std::prev(of)->second;
    return group.efficiency_beyond.empty() ? group.efficiency
                                           : group.efficiency_beyond.rbegin()->second;
  }

  const Cluster& cluster_;
  std::int64_t left_;  // devices of the unit that is divided next
  CommunicationMatrix levels_;
  std::string problem_;
};

}  // namespace

std::variant<CommunicationMatrix, Infeasible> communication_matrix(const Cluster& cluster) {
  return DividedCluster(cluster).run();
}

std::vector<std::vector<BytesPerSecond>> point_to_point(const CommunicationLevel& level) {
  if (!level.pairs.empty()) return level.pairs;
  std::vector<std::vector<BytesPerSecond>> out;
  for (std::int64_t a = 0; a < level.units; ++a) {
    std::vector<BytesPerSecond>& row = out.emplace_back();
    for (std::int64_t b = 0; b < level.units; ++b) {
      const std::int64_t apart = a > b ? a - b : b - a;
      double links = a == b ? 0 : 1;
      if (level.joined == Joined::kRing && apart != 1 && apart + 1 != level.units) links = 0;
      if (level.joined == Joined::kCubeMesh)
        links = kCubeLinks.begin()[a].begin()[b] / kMostCubeLinks;
      row.push_back(links * level.between);
    }
  }
  return out;
}

std::vector<std::vector<BytesPerSecond>> widest_paths(const CommunicationLevel& level) {
  struct Link {
    BytesPerSecond bandwidth;
    std::size_t a, b;
  };
  auto out = point_to_point(level);
  std::vector<Link> links;
  std::vector<std::size_t> part_of;             // [unit]
  std::vector<std::vector<std::size_t>> parts;  // units that links so far join
  for (std::size_t a = 0; a < out.size(); ++a) {
    part_of.push_back(a);
    parts.push_back({a});
    for (std::size_t b = 0; b < a; ++b) {
      if (out[a][b] > 0) links.push_back({out[a][b], a, b});
    }
  }
  // The widest first: the link that joins two parts is the narrowest of the paths between them.
  std::stable_sort(links.begin(), links.end(), [](const Link& left, const Link& right) {
    return left.bandwidth > right.bandwidth;
  });
  for (const Link& link : links) {
    const std::size_t kept = part_of[link.a], joined = part_of[link.b];
    if (kept == joined) continue;
    for (const std::size_t b : parts[joined]) {
      for (const std::size_t a : parts[kept]) {
        if (out[a][b] == 0) out[a][b] = out[b][a] = link.bandwidth;
      }
    }
    for (const std::size_t b : parts[joined]) {
      part_of[b] = kept;
      parts[kept].push_back(b);
    }
    parts[joined].clear();
  }
  return out;
}

}  // namespace trainyard
