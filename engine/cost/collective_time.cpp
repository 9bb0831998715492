#include "engine/cost/collective_time.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/cost/link_bandwidth.h"
#include "engine/cost/link_rate.h"

namespace trainyard {

namespace {

/// Whether `ranks` devices of a node hang from several PCIe switches.
bool spans_switches(const Cluster& cluster, std::int64_t ranks) {
  return cluster.pcie.switches > 1 && ranks * cluster.pcie.switches > cluster.devices_per_node;
}

/// Sockets that `ranks` devices of a node hang from.
std::int64_t sockets_of(const Cluster& cluster, std::int64_t ranks) {
  const std::int64_t per_socket = cluster.devices_per_node / cluster.host.sockets;
  return (ranks + per_socket - 1) / per_socket;
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

std::int64_t ceil_log2(std::int64_t n) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < n) ++levels;
  return levels;
}

/// Curve of a collective inside a node.
const LinkCurve& inside_curve(OpKind kind, const Cluster& cluster) {
  if (cluster.intra.by_kind.empty()) return cluster.intra.collective;
  const auto own = cluster.intra.by_kind.find(std::string(to_string(kind)));
  return own == cluster.intra.by_kind.end() ? cluster.intra.collective : own->second;
}

/// Phases of one collective in one group; startup is left to the caller.
class Phases {
 public:
  Phases(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster)
      : bytes_(bytes),
        size_(static_cast<double>(bytes)),
        group_(group),
        cluster_(cluster),
        inside_(inside_curve(kind, cluster)) {}

  void ring(std::int64_t steps) {
    const auto n = static_cast<double>(group_.ranks);
    const auto nodes = static_cast<double>(group_.nodes);
    const double per_byte = slowest_edge();
    const Seconds once =
        (nodes - 1) * cluster_.inter.collective.latency + (n - nodes) * rank_latency();
    const double rounds = static_cast<double>(steps) / (n - 1);
    phases_.push_back({EdgeShape::kRing, 1, steps, size_ / n, rounds * once,
                       rounds * (n - 1) / n * size_ * per_byte});
  }

  /// Two trees over the nodes, each for half of the buffer, in which every node is a leaf of one,
  /// and a chain through each node; in so many pieces that all links are busy all the time. Each
  /// node receives and sends as much as in a ring, so that the ring's edges stand for the trees'.
  void double_tree() {
    const auto n = static_cast<double>(group_.ranks);
    const std::int64_t levels = ceil_log2(group_.nodes);
    const std::int64_t steps = 2 * (group_.ranks_per_node - 1 + levels);
    const double volume = 2 * (n - 1) / n * size_;
    const Seconds latency = static_cast<double>(2 * (group_.ranks_per_node - 1)) * rank_latency() +
                            static_cast<double>(2 * levels) * cluster_.inter.collective.latency;
    phases_.push_back({EdgeShape::kRing, 1, steps, volume / static_cast<double>(steps), latency,
                       volume * slowest_edge()});
  }

  /// Each device has its part of the buffer added up by the switches, which read it from all, and
  /// writes the sum, which they copy to all: S for the others' parts and S/n for its own, in each
  /// direction.
  void in_switch() {
    const double n = static_cast<double>(group_.ranks);
    const double volume = (n + 1) / n * size_;
    phases_.push_back({EdgeShape::kRing, 1, 2, volume / 2, 2 * cluster_.intra.in_switch->latency,
                       volume * switch_rate(group_.ranks)});
  }

  /// in_switch() in every node, and between the nodes a double tree (levels 2 log2 nodes up and
  /// down, nearly 2 S through the NICs of a node) or switches that add up too (one level, S).
  void in_switch_across(bool network_adds) {
    const auto local = static_cast<double>(group_.ranks_per_node);
    const auto nodes = static_cast<double>(group_.nodes);
    const std::int64_t levels = network_adds ? 1 : ceil_log2(group_.nodes);
    const bool alone = group_.ranks_per_node == 1;
    const double inside_volume = alone ? 0 : (local + 1) / local * size_;
    const double between_volume = network_adds ? size_ : 2 * (nodes - 1) / nodes * size_;
    Seconds transfer = between_volume * between(nics(), 1, group_.fabric_ring);
    Seconds latency = static_cast<double>(2 * levels) * cluster_.inter.collective.latency;
    if (!alone) {
      transfer = std::max(transfer, inside_volume * switch_rate(group_.ranks_per_node));
      latency += 2 * cluster_.intra.in_switch->latency;
    }
    const auto steps = static_cast<double>(2 * levels);
    phases_.push_back({EdgeShape::kRing, 1, 2 * levels, between_volume / steps, latency, transfer});
  }

  /// ceil(log2 n) levels up to rank 0 and as many down, the whole buffer on each.
  void tree() {
    const std::int64_t levels = ceil_log2(group_.ranks);
    for (std::int64_t j = 0; j < levels; ++j)
      level(EdgeShape::kTreeUp, std::int64_t{1} << j, size_);
    for (std::int64_t j = levels; j-- > 0;)
      level(EdgeShape::kTreeDown, std::int64_t{1} << j, size_);
  }

  /// Halves are exchanged with ever nearer partners, then put together again with ever farther
  /// ones.
  void halving_doubling() {
    double part = size_;
    for (std::int64_t d = group_.ranks / 2; d >= 1; d /= 2)
      level(EdgeShape::kExchange, d, part /= 2);
    for (std::int64_t d = 1; d < group_.ranks; d *= 2, part *= 2)
      level(EdgeShape::kExchange, d, part);
  }

  void hierarchical() {
    const auto local = static_cast<double>(group_.ranks_per_node);
    const auto nodes = static_cast<double>(group_.nodes);
    const std::int64_t inner = group_.ranks_per_node - 1;
    const auto inner_ring = [&] {
      phases_.push_back({EdgeShape::kInnerRing, 1, inner, size_ / local,
                         static_cast<double>(inner) * inside_.latency,
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
    const double per_byte = apart ? own_nic(most_per_leaf()) : inside_all(group_.ranks);
    phases_.push_back({EdgeShape::kShift, 1, steps, size_ / n,
                       static_cast<double>(steps) * latency(apart),
                       static_cast<double>(steps) * size_ / n * per_byte});
  }

  void chain() {
    const auto chunks = static_cast<double>(kBroadcastChunks);
    const std::int64_t steps = group_.ranks - 2 + kBroadcastChunks;
    const bool apart = group_.nodes > 1;
    const double per_byte = slowest_edge();
    phases_.push_back({EdgeShape::kChain, 1, steps, size_ / chunks,
                       static_cast<double>(steps) * latency(apart),
                       static_cast<double>(steps) * size_ / chunks * per_byte});
  }

  std::vector<CollectivePhase> take() { return std::move(phases_); }

 private:
  std::int64_t nics() const {
    return group_.nics > 0 ? group_.nics : std::min(group_.ranks_per_node, cluster_.num_nics());
  }
  bool uniform() const { return group_.ranks == group_.nodes * group_.ranks_per_node; }
  std::int64_t most_per_leaf() const { return (group_.ranks + group_.leaves - 1) / group_.leaves; }
  Seconds latency(bool apart) const {
    return apart ? cluster_.inter.collective.latency : inside_.latency;
  }

  /// Latency of a step to a rank of the same node, in a ring or chain through all.
  Seconds rank_latency() const {
    const Seconds across = cluster_.inter.collective.rank_latency;
    return group_.nodes > 1 && across > 0 ? across : inside_.latency;
  }

  /// Edges of a ring that pass the memory of one socket, or of a round in which everybody sends.
  std::int64_t staged_edges(std::int64_t ranks) const {
    const std::int64_t sockets = sockets_of(cluster_, ranks);
    return (ranks + (group_.nodes > 1 ? 1 : 0) + sockets - 1) / sockets;
  }

  /// `crossing`: edges from one socket to another.
  double inside(std::int64_t ranks, std::int64_t crossing = 1) const {
    const LinkCurve& curve = inside_;
    const bool sockets = sockets_of(cluster_, ranks) > 1;
    BytesPerSecond bandwidth = inside_bandwidth(cluster_, spans_switches(cluster_, ranks), false);
    if (sockets && cluster_.host.link > 0) {
      bandwidth = std::min(bandwidth, cluster_.host.link / static_cast<double>(crossing));
    }
    return seconds_per_byte(curve, rates_of_group(curve, ranks),
                            staged_bandwidth(cluster_, bandwidth, staged_edges(ranks)), bytes_);
  }
  /// Where any of them may send to the other socket.
  double inside_all(std::int64_t ranks) const { return inside(ranks, (ranks + 1) / 2); }
  /// `fabric`: seconds per byte of the busiest link between the NICs.
  double between(std::int64_t nics, std::int64_t edges, double fabric) const {
    const LinkCurve& curve = cluster_.inter.collective;
    BytesPerSecond bandwidth = between_bandwidth(cluster_, nics, edges, group_.leaves > 1);
    bandwidth = staged_bandwidth(cluster_, bandwidth, staged_edges(group_.ranks_per_node));
    if (fabric > 0) bandwidth = std::min(bandwidth, 1 / fabric);
    return seconds_per_byte(curve, rates_of_group(curve, 1), bandwidth, bytes_);
  }
  double switch_rate(std::int64_t ranks) const {
    const LinkCurve& curve = *cluster_.intra.in_switch;
    return seconds_per_byte(curve, rates_of_group(curve, ranks), cluster_.intra.bandwidth, bytes_);
  }
  /// Seconds per byte on each edge of a ring through all ranks, which goes at the pace of the
  /// slowest.
  double slowest_edge() const {
    double per_byte = 0;
    if (group_.ranks > group_.nodes)
      per_byte = inside(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node);
    if (group_.nodes > 1) per_byte = std::max(per_byte, between(nics(), 1, group_.fabric_ring));
    return per_byte;
  }
  /// Every rank sends over the NIC next to it, which others of its node may share. `edges` leave a
  /// leaf.
  double own_nic(std::int64_t edges) const {
    const auto sharing = static_cast<double>(group_.ranks_per_node) / static_cast<double>(nics());
    return between(1, edges, group_.fabric_spread) * std::max(1.0, sharing);
  }

  void level(EdgeShape shape, std::int64_t distance, double part) {
    const bool apart = group_.nodes > 1 && !(uniform() && is_power_of_two(group_.ranks_per_node) &&
                                             distance < group_.ranks_per_node);
    const bool all = shape == EdgeShape::kExchange;
    const std::int64_t out_of_leaf = all ? most_per_leaf() : 1;
    const double per_byte =
        !apart ? inside_all(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node)
        : all  ? own_nic(out_of_leaf)
               : between(1, out_of_leaf, group_.fabric_spread);
    phases_.push_back({shape, distance, 1, part, latency(apart), part * per_byte});
  }

  Bytes bytes_;
  double size_;
  const GroupLayout& group_;
  const Cluster& cluster_;
  const LinkCurve& inside_;
  std::vector<CollectivePhase> phases_;
};

bool is_in_switch(Algorithm algorithm) {
  return algorithm == Algorithm::kInSwitch || algorithm == Algorithm::kInSwitchTree ||
         algorithm == Algorithm::kInNetwork;
}

/// Once per call: the larger of the classes of links in use.
Seconds startup(OpKind kind, Algorithm algorithm, const GroupLayout& group,
                const Cluster& cluster) {
  const std::int64_t ranks = group.nodes == 1 ? group.ranks : group.ranks_per_node;
  Seconds time = 0;
  if (group.ranks > group.nodes) {
    const LinkCurve& curve =
        is_in_switch(algorithm) ? *cluster.intra.in_switch : inside_curve(kind, cluster);
    time = rates_of_group(curve, ranks).startup;
  }
  if (group.nodes > 1) time = std::max(time, cluster.inter.collective.startup);
  return time;
}

bool is_made_for(Algorithm algorithm, const GroupLayout& group, const Cluster& cluster) {
  const bool uniform = group.ranks == group.nodes * group.ranks_per_node;
  const bool adds = cluster.intra.in_switch.has_value() && group.ranks_per_node > 1;
  switch (algorithm) {
    case Algorithm::kHalvingDoubling: return is_power_of_two(group.ranks);
    case Algorithm::kHierarchical: return group.nodes > 1 && group.ranks_per_node > 1 && uniform;
    case Algorithm::kDoubleTree: return group.nodes > 1;
    case Algorithm::kInSwitch: return group.nodes == 1 && adds;
    case Algorithm::kInSwitchTree: return group.nodes > 1 && adds && uniform;
    case Algorithm::kInNetwork:
      return group.nodes > 1 && (adds || group.ranks_per_node == 1) && uniform;
    default: return true;
  }
}

std::vector<CollectivePhase> phases_of(OpKind kind, Algorithm algorithm, Bytes bytes,
                                       const GroupLayout& group, const Cluster& cluster) {
  Phases phases(kind, bytes, group, cluster);
  if (kind == OpKind::kBroadcast || kind == OpKind::kReduce) {
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
      case Algorithm::kDoubleTree: phases.double_tree(); break;
      case Algorithm::kInSwitch: phases.in_switch(); break;
      case Algorithm::kInSwitchTree: phases.in_switch_across(false); break;
      case Algorithm::kInNetwork: phases.in_switch_across(true); break;
      default: phases.ring(2 * (group.ranks - 1)); break;
    }
  }
  auto out = phases.take();
  out.front().latency += startup(kind, algorithm, group, cluster);
  return out;
}

Seconds sum(const std::vector<CollectivePhase>& phases) {
  Seconds time = 0;
  for (const CollectivePhase& phase : phases) time += phase.latency + phase.transfer;
  return time;
}

struct NamedAlgorithm {
  Algorithm algorithm;
  std::string_view name;
};
// Algorithms of an all_reduce. The first four are the textbook's, among which `auto` chooses on
// links without a fitted curve; on others it has the library's choices.
constexpr std::array<NamedAlgorithm, 8> kAllReduceAlgorithms = {
    {{Algorithm::kRing, "ring"},
     {Algorithm::kTree, "tree"},
     {Algorithm::kHalvingDoubling, "halving-doubling"},
     {Algorithm::kHierarchical, "hierarchical"},
     {Algorithm::kDoubleTree, "double-tree"},
     {Algorithm::kInSwitch, "nvls"},
     {Algorithm::kInSwitchTree, "nvls-tree"},
     {Algorithm::kInNetwork, "sharp"}}};
constexpr std::array kOfTextbook = {Algorithm::kRing, Algorithm::kTree, Algorithm::kHalvingDoubling,
                                    Algorithm::kHierarchical};
constexpr std::array kOfLibrary = {Algorithm::kRing, Algorithm::kDoubleTree, Algorithm::kInSwitch};

}  // namespace

Algorithm algorithm_of(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster) {
  if (kind == OpKind::kAllToAll) return Algorithm::kPairwise;
  const auto said = cluster.collectives.find(std::string(to_string(kind)));
  if (kind != OpKind::kAllReduce || said == cluster.collectives.end()) return Algorithm::kRing;
  bool of_library = false;
  for (const auto& [algorithm, name] : kAllReduceAlgorithms) {
    if (said->second != name) continue;
    if (is_made_for(algorithm, group, cluster)) return algorithm;
    of_library = algorithm == Algorithm::kInSwitchTree || algorithm == Algorithm::kInNetwork;
    if (!of_library) return Algorithm::kRing;
  }
  check(of_library || said->second == "auto", "the reader knows the algorithms of an all_reduce");
  const bool fitted = of_library ||
                      (group.ranks > group.nodes && !is_plain(cluster.intra.collective)) ||
                      (group.nodes > 1 && !is_plain(cluster.inter.collective));
  Algorithm best = Algorithm::kRing;
  Seconds fastest = sum(phases_of(kind, best, bytes, group, cluster));
  const auto choices =
      fitted ? std::span<const Algorithm>(kOfLibrary) : std::span<const Algorithm>(kOfTextbook);
  for (const Algorithm algorithm : choices) {
    if (!is_made_for(algorithm, group, cluster)) continue;
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
  const Algorithm algorithm = algorithm_of(kind, bytes, group, cluster);
  if (group.ranks > group.nodes) {
    if (is_in_switch(algorithm)) {
      log.use(cluster.intra, *cluster.intra.in_switch, "in_switch", "all-reduces in the switches");
    } else {
      const LinkCurve& curve = inside_curve(kind, cluster);
      const bool own = &curve != &cluster.intra.collective;
      log.use(cluster.intra, curve, own ? to_string(kind) : "collective",
              own ? "such collectives" : "collectives");
      note_range(curve, bytes, log);
    }
  }
  if (group.nodes > 1)
    log.use(cluster.inter, cluster.inter.collective, "collective", "collectives");
  return phases_of(kind, algorithm, bytes, group, cluster);
}

Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log) {
  return sum(collective_phases(kind, bytes, group, cluster, log));
}

double edge_bytes(OpKind kind, const CollectivePhase& phase) {
  if (phase.shape == EdgeShape::kShift) return phase.bytes;
  if (kind == OpKind::kBroadcast || kind == OpKind::kReduce)
    return phase.bytes * static_cast<double>(kBroadcastChunks);
  return phase.bytes * static_cast<double>(phase.steps);
}

bool leaves_ring(OpKind kind, const Cluster& cluster) {
  if (kind == OpKind::kAllToAll) return true;
  const auto said = cluster.collectives.find(std::string(to_string(kind)));
  if (kind != OpKind::kAllReduce || said == cluster.collectives.end()) return false;
  if (said->second == "auto")
    return is_plain(cluster.inter.collective) && is_plain(cluster.intra.collective);
  return said->second == "tree" || said->second == "halving-doubling" ||
         said->second == "hierarchical";
}

}  // namespace trainyard
