#include "engine/cost/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// Efficiency of a group of `ranks` inside one node.
double group_efficiency(const LinkCurve& curve, std::int64_t ranks) {
  const auto above = curve.efficiency_by_ranks.upper_bound(ranks);
  return above == curve.efficiency_by_ranks.begin() ? curve.efficiency : std::prev(above)->second;
}

/// Seconds per byte at `bandwidth` for a call of `message` bytes.
double seconds_per_byte(const LinkCurve& curve, double efficiency, BytesPerSecond bandwidth,
                        Bytes message) {
  check(bandwidth > 0 && efficiency > 0, "a link in use has a bandwidth");
  const double slow_start =
      curve.half_size > 0 && message > 0
          ? std::sqrt(static_cast<double>(curve.half_size) / static_cast<double>(message))
          : 0;
  return (1 + slow_start) / (efficiency * bandwidth);
}

/// Bandwidth between two devices of one node.
BytesPerSecond inside_bandwidth(const Cluster& cluster, bool across_switches) {
  const BytesPerSecond port = cluster.intra.bandwidth;
  return across_switches ? std::min(port, cluster.pcie.uplink) : port;
}

/// Whether `ranks` devices of a node hang from several PCIe switches.
bool spans_switches(const Cluster& cluster, std::int64_t ranks) {
  return cluster.pcie.switches > 1 && ranks * cluster.pcie.switches > cluster.devices_per_node;
}

/// Bandwidth of `nics` NICs of a node together. `edges`: how many such flows leave a leaf at once.
BytesPerSecond between_bandwidth(const Cluster& cluster, std::int64_t nics, std::int64_t edges, bool across_leaves) {
  const BytesPerSecond share =
      cluster.inter.bandwidth * static_cast<double>(nics) / static_cast<double>(cluster.num_nics());
  const Fabric& fabric = cluster.fabric;
  if (!across_leaves || fabric.oversubscription <= 1) return share;
  const BytesPerSecond trunk =
      cluster.inter.bandwidth * static_cast<double>(fabric.nodes_per_leaf) / fabric.oversubscription;
  return std::min(share, trunk / static_cast<double>(edges));
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

/// Whether the curve is the textbook's alpha and beta.
bool is_plain(const LinkCurve& curve) {
  return curve.startup == 0 && curve.efficiency == 1 && curve.half_size == 0 &&
         curve.efficiency_by_ranks.empty();
}

std::int64_t ceil_log2(std::int64_t n) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < n) ++levels;
  return levels;
}

/// Phases of one collective in one group; startup is left to the caller.
class Phases {
 public:
  Phases(Bytes bytes, const GroupLayout& group, const Cluster& cluster)
      : bytes_(bytes), size_(static_cast<double>(bytes)), group_(group), cluster_(cluster) {}

  void ring(std::int64_t steps) {
    const auto n = static_cast<double>(group_.ranks);
    const auto nodes = static_cast<double>(group_.nodes);
    double per_byte = 0;  // of the slowest edge
    if (group_.ranks > group_.nodes) per_byte = inside(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node);
    if (group_.nodes > 1) per_byte = std::max(per_byte, between(nics(), 1));
    const Seconds once = (nodes - 1) * cluster_.inter.collective.latency +
                         (n - nodes) * cluster_.intra.collective.latency;
    const double rounds = static_cast<double>(steps) / (n - 1);
    phases_.push_back({EdgeShape::kRing, 1, steps, size_ / n, rounds * once,
                       rounds * (n - 1) / n * size_ * per_byte});
  }

  /// ceil(log2 n) levels up to rank 0 and as many down, the whole buffer on each.
  void tree() {
    const std::int64_t levels = ceil_log2(group_.ranks);
    for (std::int64_t j = 0; j < levels; ++j) level(EdgeShape::kTreeUp, std::int64_t{1} << j, size_);
    for (std::int64_t j = levels; j-- > 0;) level(EdgeShape::kTreeDown, std::int64_t{1} << j, size_);
  }

  /// Halves are exchanged with ever nearer partners, then put together again with ever farther ones.
  void halving_doubling() {
    double part = size_;
    for (std::int64_t d = group_.ranks / 2; d >= 1; d /= 2) level(EdgeShape::kExchange, d, part /= 2);
    for (std::int64_t d = 1; d < group_.ranks; d *= 2, part *= 2) level(EdgeShape::kExchange, d, part);
  }

  void hierarchical() {
    const auto local = static_cast<double>(group_.ranks_per_node);
    const auto nodes = static_cast<double>(group_.nodes);
    const std::int64_t inner = group_.ranks_per_node - 1;
    const auto inner_ring = [&] {
      phases_.push_back({EdgeShape::kInnerRing, 1, inner, size_ / local,
                         static_cast<double>(inner) * cluster_.intra.collective.latency,
                         (local - 1) / local * size_ * inside(group_.ranks_per_node)});
    };
    inner_ring();
    const std::int64_t outer = 2 * (group_.nodes - 1);
    const std::int64_t out_of_leaf = group_.leaves > 1 ? group_.ranks_per_node : 1;
    phases_.push_back({EdgeShape::kOuterRing, 1, outer, size_ / local / nodes,
                       static_cast<double>(outer) * cluster_.inter.collective.latency,
                       2 * (nodes - 1) / nodes * size_ / local * own_nic(out_of_leaf)});
    inner_ring();
  }

  void pairwise() {
    const auto n = static_cast<double>(group_.ranks);
    const std::int64_t steps = group_.ranks - 1;
    const bool apart = group_.nodes > 1;
    const double per_byte = apart ? own_nic(most_per_leaf()) : inside(group_.ranks);
    phases_.push_back({EdgeShape::kShift, 1, steps, size_ / n, static_cast<double>(steps) * latency(apart),
                       static_cast<double>(steps) * size_ / n * per_byte});
  }

  void chain() {
    const auto chunks = static_cast<double>(kBroadcastChunks);
    const std::int64_t steps = group_.ranks - 2 + kBroadcastChunks;
    const bool apart = group_.nodes > 1;
    double per_byte = apart ? between(nics(), 1) : 0;
    if (group_.ranks > group_.nodes) per_byte = std::max(per_byte, inside(apart ? group_.ranks_per_node : group_.ranks));
    phases_.push_back({EdgeShape::kChain, 1, steps, size_ / chunks, static_cast<double>(steps) * latency(apart),
                       static_cast<double>(steps) * size_ / chunks * per_byte});
  }

  std::vector<CollectivePhase> take() { return std::move(phases_); }

 private:
  std::int64_t nics() const { return group_.nics > 0 ? group_.nics : std::min(group_.ranks_per_node, cluster_.num_nics()); }
  bool uniform() const { return group_.ranks == group_.nodes * group_.ranks_per_node; }
  std::int64_t most_per_leaf() const { return (group_.ranks + group_.leaves - 1) / group_.leaves; }
  Seconds latency(bool apart) const {
    return apart ? cluster_.inter.collective.latency : cluster_.intra.collective.latency;
  }

  double inside(std::int64_t ranks) const {
    const LinkCurve& curve = cluster_.intra.collective;
    return seconds_per_byte(curve, group_efficiency(curve, ranks),
                            inside_bandwidth(cluster_, spans_switches(cluster_, ranks)), bytes_);
  }
  double between(std::int64_t nics, std::int64_t edges) const {
    const LinkCurve& curve = cluster_.inter.collective;
    return seconds_per_byte(curve, curve.efficiency, between_bandwidth(cluster_, nics, edges, group_.leaves > 1), bytes_);
  }
  /// Every rank sends over the NIC next to it, which others of its node may share. `edges` leave a leaf.
  double own_nic(std::int64_t edges) const {
    const auto sharing = static_cast<double>(group_.ranks_per_node) / static_cast<double>(nics());
    return between(1, edges) * std::max(1.0, sharing);
  }

  void level(EdgeShape shape, std::int64_t distance, double part) {
    const bool apart = group_.nodes > 1 && !(uniform() && is_power_of_two(group_.ranks_per_node) &&
                                             distance < group_.ranks_per_node);
    const bool all = shape == EdgeShape::kExchange;
    const std::int64_t out_of_leaf = all ? most_per_leaf() : 1;
    const double per_byte = !apart ? inside(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node)
                            : all  ? own_nic(out_of_leaf)
                                   : between(1, out_of_leaf);
    phases_.push_back({shape, distance, 1, part, latency(apart), part * per_byte});
  }

  Bytes bytes_;
  double size_;
  const GroupLayout& group_;
  const Cluster& cluster_;
  std::vector<CollectivePhase> phases_;
};

bool is_made_for(Algorithm algorithm, const GroupLayout& group) {
  switch (algorithm) {
    case Algorithm::kHalvingDoubling: return is_power_of_two(group.ranks);
    case Algorithm::kHierarchical:
      return group.nodes > 1 && group.ranks_per_node > 1 && group.ranks == group.nodes * group.ranks_per_node;
    default: return true;
  }
}

std::vector<CollectivePhase> phases_of(OpKind kind, Algorithm algorithm, Bytes bytes, const GroupLayout& group,
                                       const Cluster& cluster) {
  Phases phases(bytes, group, cluster);
  if (kind == OpKind::kBroadcast) {
    phases.chain();
  } else if (kind == OpKind::kAllToAll) {
    phases.pairwise();
  } else if (kind != OpKind::kAllReduce) {
    phases.ring(group.ranks - 1);
  } else {
    switch (algorithm) {
      case Algorithm::kTree: phases.tree(); break;
      case Algorithm::kHalvingDoubling: phases.halving_doubling(); break;
      case Algorithm::kHierarchical: phases.hierarchical(); break;
      default: phases.ring(2 * (group.ranks - 1)); break;
    }
  }
  return phases.take();
}

Seconds sum(const std::vector<CollectivePhase>& phases) {
  Seconds time = 0;
  for (const CollectivePhase& phase : phases) time += phase.latency + phase.transfer;
  return time;
}

constexpr std::array kAllReduceAlgorithms = {Algorithm::kRing, Algorithm::kTree, Algorithm::kHalvingDoubling,
                                             Algorithm::kHierarchical};
constexpr std::array<std::string_view, 4> kAllReduceNames = {"ring", "tree", "halving-doubling", "hierarchical"};

}  // namespace

Algorithm algorithm_of(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster) {
  if (kind == OpKind::kAllToAll) return Algorithm::kPairwise;
  const auto said = cluster.collectives.find(std::string(to_string(kind)));
  if (kind != OpKind::kAllReduce || said == cluster.collectives.end()) return Algorithm::kRing;
  for (std::size_t i = 0; i < kAllReduceAlgorithms.size(); ++i) {
    if (said->second != kAllReduceNames[i]) continue;
    return is_made_for(kAllReduceAlgorithms[i], group) ? kAllReduceAlgorithms[i] : Algorithm::kRing;
  }
  check(said->second == "auto", "the reader knows the algorithms of an all_reduce");
  const bool inside = group.ranks > group.nodes;
  if ((inside && !is_plain(cluster.intra.collective)) ||
      (group.nodes > 1 && !is_plain(cluster.inter.collective))) {
    return Algorithm::kRing;
  }
  Algorithm best = Algorithm::kRing;
  Seconds fastest = sum(phases_of(kind, best, bytes, group, cluster));
  for (const Algorithm algorithm : kAllReduceAlgorithms) {
    if (!is_made_for(algorithm, group)) continue;
    const Seconds time = sum(phases_of(kind, algorithm, bytes, group, cluster));
    if (time >= fastest) continue;
    best = algorithm;
    fastest = time;
  }
  return best;
}

std::vector<CollectivePhase> collective_phases(OpKind kind, Bytes bytes, const GroupLayout& group,
                                               const Cluster& cluster, SourceLog& log) {
  check(is_collective(kind), "phases of an op that is no collective");
  check(group.nodes >= 1 && group.nodes <= group.ranks, "a group lies on 1 to n nodes");
  if (group.ranks == 1) return {};
  auto phases = phases_of(kind, algorithm_of(kind, bytes, group, cluster), bytes, group, cluster);
  const LinkCurve& intra = cluster.intra.collective;
  const LinkCurve& inter = cluster.inter.collective;
  Seconds startup = 0;
  if (group.ranks > group.nodes) {
    log.use(cluster.intra, intra, "collective", "collectives");
    startup = intra.startup;
  }
  if (group.nodes > 1) {
    log.use(cluster.inter, inter, "collective", "collectives");
    startup = std::max(startup, inter.startup);
  }
  phases.front().latency += startup;
  return phases;
}

Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log) {
  return sum(collective_phases(kind, bytes, group, cluster, log));
}

TransferTime transfer_parts(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log) {
  if (distance == Distance::kSameDevice) return {};
  const bool inside = distance == Distance::kSameNode || distance == Distance::kAcrossSwitches;
  const LinkClass& link = inside ? cluster.intra : cluster.inter;
  const LinkCurve& curve = link.point_to_point;
  log.use(link, curve, "point_to_point", "sends and receives");
  const BytesPerSecond bandwidth =
      inside ? inside_bandwidth(cluster, distance == Distance::kAcrossSwitches)
             : between_bandwidth(cluster, 1, 1, distance == Distance::kAcrossLeaves);
  return {curve.startup + curve.latency,
          static_cast<double>(bytes) * seconds_per_byte(curve, curve.efficiency, bandwidth, bytes)};
}

Seconds transfer_time(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log) {
  const TransferTime parts = transfer_parts(bytes, distance, cluster, log);
  return parts.latency + parts.transfer;
}

}  // namespace trainyard
