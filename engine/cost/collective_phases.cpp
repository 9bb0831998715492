#include "engine/cost/collective_phases.h"

#include <algorithm>
#include <limits>
#include <string>

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

std::int64_t ceil_log2(std::int64_t n) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < n) ++levels;
  return levels;
}

}  // namespace

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

LinkCurve::Group rates_inside(const LinkCurve& curve, const GroupLayout& group,
                              std::int64_t ranks) {
  return ranks == 2 && group.beyond_pairs ? rates_beyond_pairs(curve)
                                          : rates_of_group(curve, ranks);
}

const LinkCurve& inside_curve(OpKind kind, const Cluster& cluster) {
  if (cluster.intra.by_kind.empty()) return cluster.intra.collective;
  const auto own = cluster.intra.by_kind.find(std::string(to_string(kind)));
  return own == cluster.intra.by_kind.end() ? cluster.intra.collective : own->second;
}

CollectivePhases::CollectivePhases(OpKind kind, Bytes bytes, const GroupLayout& group,
                                   const Cluster& cluster)
    : bytes_(bytes),
      size_(static_cast<double>(bytes)),
      group_(group),
      cluster_(cluster),
      inside_(inside_curve(kind, cluster)) {}

void CollectivePhases::ring(std::int64_t steps) {
  const auto n = static_cast<double>(group_.ranks);
  const auto nodes = static_cast<double>(group_.nodes);
  const double per_byte = slowest_edge();
  const Seconds once =
      (nodes - 1) * cluster_.inter.collective.latency + (n - nodes) * rank_latency();
  const double rounds = static_cast<double>(steps) / (n - 1);
  phases_.push_back({EdgeShape::kRing, 1, steps, size_ / n, rounds * once,
                     rounds * (n - 1) / n * size_ * per_byte});
}

void CollectivePhases::double_tree() {
  const auto n = static_cast<double>(group_.ranks);
  const std::int64_t levels = ceil_log2(group_.nodes);
  const std::int64_t steps = 2 * (group_.ranks_per_node - 1 + levels);
  const double volume = 2 * (n - 1) / n * size_;
  const Seconds latency = static_cast<double>(2 * (group_.ranks_per_node - 1)) * rank_latency() +
                          static_cast<double>(2 * levels) * cluster_.inter.collective.latency;
  phases_.push_back({EdgeShape::kRing, 1, steps, volume / static_cast<double>(steps), latency,
                     volume * slowest_edge()});
}

void CollectivePhases::in_switch() {
  const double n = static_cast<double>(group_.ranks);
  const double volume = (n + 1) / n * size_;
  phases_.push_back({EdgeShape::kRing, 1, 2, volume / 2, 2 * cluster_.intra.in_switch->latency,
                     volume * switch_rate(group_.ranks)});
}

void CollectivePhases::in_switch_across(bool network_adds) {
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

void CollectivePhases::tree() {
  const std::int64_t levels = ceil_log2(group_.ranks);
  for (std::int64_t j = 0; j < levels; ++j) level(EdgeShape::kTreeUp, std::int64_t{1} << j, size_);
  for (std::int64_t j = levels; j-- > 0;) level(EdgeShape::kTreeDown, std::int64_t{1} << j, size_);
}

void CollectivePhases::halving_doubling() {
  double part = size_;
  for (std::int64_t d = group_.ranks / 2; d >= 1; d /= 2) level(EdgeShape::kExchange, d, part /= 2);
  for (std::int64_t d = 1; d < group_.ranks; d *= 2, part *= 2)
    level(EdgeShape::kExchange, d, part);
}

void CollectivePhases::hierarchical() {
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

void CollectivePhases::pairwise() {
  const auto n = static_cast<double>(group_.ranks);
  const std::int64_t steps = group_.ranks - 1;
  const bool apart = group_.nodes > 1;
  const double per_byte = apart ? own_nic(most_per_leaf()) : inside_all(group_.ranks);
  phases_.push_back({EdgeShape::kShift, 1, steps, size_ / n,
                     static_cast<double>(steps) * latency(apart),
                     static_cast<double>(steps) * size_ / n * per_byte});
}

void CollectivePhases::all_pairs() {
  const double part = size_ / static_cast<double>(group_.ranks);
  const std::int64_t least = group_.ranks_per_node;
  const std::int64_t most = std::max(least, group_.most_per_node);
  const auto latency_of = [&](std::int64_t local) {
    return static_cast<double>(group_.ranks - local) * latency(true) +
           static_cast<double>(local - 1) * latency(false);
  };
  phases_.push_back(
      {EdgeShape::kPairs, 1, 1, part, std::max(latency_of(least), latency_of(most)),
       part * std::max(pairs_between(), static_cast<double>(most - 1) * inside(most))});
}

void CollectivePhases::shift() {
  phases_.push_back(
      {EdgeShape::kRing, 1, 1, size_, latency(group_.nodes > 1), size_ * slowest_edge()});
}

void CollectivePhases::chain() {
  const Seconds alpha = latency(group_.nodes > 1);
  const double per_byte = slowest_edge();
  const std::int64_t chunks = broadcast_chunks(group_.ranks, size_ * per_byte, alpha);
  const std::int64_t steps = group_.ranks - 2 + chunks;
  const double part = size_ / static_cast<double>(chunks);
  phases_.push_back({EdgeShape::kChain, 1, steps, part, static_cast<double>(steps) * alpha,
                     static_cast<double>(steps) * part * per_byte, chunks});
}

std::int64_t CollectivePhases::nics() const {
  return group_.nics > 0 ? group_.nics : std::min(group_.ranks_per_node, cluster_.num_nics());
}

Seconds CollectivePhases::latency(bool apart) const {
  return apart ? cluster_.inter.collective.latency : inside_.latency;
}

Seconds CollectivePhases::rank_latency() const {
  const Seconds across = cluster_.inter.collective.rank_latency;
  return group_.nodes > 1 && across > 0 ? across : inside_.latency;
}

std::int64_t CollectivePhases::staged_edges(std::int64_t ranks) const {
  const std::int64_t sockets = sockets_of(cluster_, ranks);
  return (ranks + (group_.nodes > 1 ? 1 : 0) + sockets - 1) / sockets;
}

double CollectivePhases::inside(std::int64_t ranks, std::int64_t crossing) const {
  const LinkCurve& curve = inside_;
  const bool sockets = sockets_of(cluster_, ranks) > 1;
  const LinkCurve::Group rates = rates_inside(curve, group_, ranks);
  const double beyond = group_.beyond_pairs ? mean_efficiency(rates, bytes_) : 1;
  BytesPerSecond bandwidth =
      inside_bandwidth(cluster_, spans_switches(cluster_, ranks), false, beyond);
  if (sockets && cluster_.host.link > 0) {
    bandwidth = std::min(bandwidth, cluster_.host.link / (static_cast<double>(crossing) * beyond));
  }
  return seconds_per_byte(curve, rates, staged_bandwidth(cluster_, bandwidth, staged_edges(ranks)),
                          bytes_);
}

double CollectivePhases::between(std::int64_t nics, std::int64_t edges, double fabric) const {
  const LinkCurve& curve = cluster_.inter.collective;
  BytesPerSecond bandwidth = between_bandwidth(cluster_, nics, edges, group_.leaves > 1);
  bandwidth = staged_bandwidth(cluster_, bandwidth, staged_edges(group_.ranks_per_node));
  if (fabric > 0) bandwidth = std::min(bandwidth, 1 / fabric);
  return seconds_per_byte(curve, rates_of_group(curve, 1), bandwidth, bytes_);
}

double CollectivePhases::switch_rate(std::int64_t ranks) const {
  const LinkCurve& curve = *cluster_.intra.in_switch;
  return seconds_per_byte(curve, rates_of_group(curve, ranks), cluster_.intra.bandwidth, bytes_);
}

double CollectivePhases::slowest_edge() const {
  double per_byte = 0;
  if (group_.ranks > group_.nodes)
    per_byte = inside(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node);
  if (group_.nodes > 1) per_byte = std::max(per_byte, between(nics(), 1, group_.fabric_ring));
  return per_byte;
}

double CollectivePhases::own_nic(std::int64_t edges) const {
  const auto sharing = static_cast<double>(group_.ranks_per_node) / static_cast<double>(nics());
  return between(1, edges, group_.fabric_spread) * std::max(1.0, sharing);
}

double CollectivePhases::pairs_between() const {
  const auto leaving = static_cast<double>(group_.ranks - group_.ranks_per_node);
  const double messages =
      group_.nic_messages > 0
          ? static_cast<double>(group_.nic_messages)
          : leaving * static_cast<double>(group_.ranks_per_node) / static_cast<double>(nics());
  double busiest = messages / between_bandwidth(cluster_, 1, 1, false);
  if (group_.leaves > 1) {
    const auto in_leaf = static_cast<double>(most_per_leaf());
    const double out = in_leaf * (static_cast<double>(group_.ranks) - in_leaf);
    busiest = std::max(busiest, out / trunk_bandwidth(cluster_));
  }
  busiest = std::max(busiest, group_.fabric_pairs);
  const BytesPerSecond staged = staged_bandwidth(cluster_, std::numeric_limits<double>::infinity(),
                                                 staged_edges(group_.ranks_per_node));
  busiest = std::max(busiest, leaving / staged);
  const LinkCurve& curve = cluster_.inter.collective;
  return seconds_per_byte(curve, rates_of_group(curve, 1), 1 / busiest, bytes_);
}

void CollectivePhases::level(EdgeShape shape, std::int64_t distance, double part) {
  const bool apart = group_.nodes > 1 && !(uniform() && is_power_of_two(group_.ranks_per_node) &&
                                           distance < group_.ranks_per_node);
  const bool all = shape == EdgeShape::kExchange;
  const std::int64_t out_of_leaf = all ? most_per_leaf() : 1;
  const double per_byte = !apart
                              ? inside_all(group_.nodes == 1 ? group_.ranks : group_.ranks_per_node)
                          : all ? own_nic(out_of_leaf)
                                : between(1, out_of_leaf, group_.fabric_spread);
  phases_.push_back({shape, distance, 1, part, latency(apart), part * per_byte});
}

}  // namespace trainyard
