#include "engine/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

FlopPerSecond peak_rate(const HardwareProfile& hardware, DType type) {
  const auto found = hardware.peak.find(type);
  check(found != hardware.peak.end() && found->second > 0,
        "a product in a type that the device lacks; ask unsupported() first");
  return found->second;
}

const MemoryCurve& memory_curve(const HardwareProfile& hardware, OpKind kind,
                                std::string_view& entry) {
  entry = to_string(kind);
  auto found = hardware.memory_bound.find(entry);
  if (found == hardware.memory_bound.end()) {
    entry = "default";
    found = hardware.memory_bound.find(entry);
  }
  check(found != hardware.memory_bound.end(), "memory_bound curves have a default");
  return found->second;
}

Seconds memory_time(double bytes, const MemoryCurve& curve, const HardwareProfile& hardware) {
  return std::max(curve.floor,
                  curve.startup + bytes / (curve.efficiency * hardware.memory_bandwidth));
}

Seconds matmul_time(const KernelWork& work, const MatmulCurve& curve,
                    const HardwareProfile& hardware, double speed) {
  const double factor = work.part == OpPart::kWeightGrad ? curve.weight_gradient_factor : 1;
  const double compute = work.flop / (curve.flop_efficiency * peak_rate(hardware, work.dtype));
  const double memory =
      static_cast<double>(work.bytes) / (curve.byte_efficiency * hardware.memory_bandwidth);
  return curve.startup + factor * (compute / speed + memory);
}

const AttentionCurve& attention_curve(const HardwareProfile& hardware,
                                      const SoftwareProfile& software) {
  const auto found = hardware.other_flash_attention.find(software.flash_kernel);
  return found == hardware.other_flash_attention.end() ? hardware.flash_attention : found->second;
}

Seconds attention_time(const KernelWork& work, const AttentionCurve& curve,
                       const HardwareProfile& hardware, double speed) {
  const bool forward = work.part == OpPart::kForward;
  double efficiency = forward ? curve.forward_efficiency : curve.backward_efficiency;
  if (work.head_dim <= 64) efficiency *= curve.small_head_factor;
  double flop = work.flop;
  if (curve.tail > 0) {
    const auto batch = static_cast<double>(std::max<std::int64_t>(work.batch, 1));
    flop += curve.tail * std::sqrt(static_cast<double>(work.head_dim) * work.flop / batch);
  }
  Seconds time = curve.startup + flop / (efficiency * peak_rate(hardware, work.dtype) * speed);
  const double bytes = forward ? curve.forward_byte_efficiency : curve.backward_byte_efficiency;
  if (bytes > 0) time += static_cast<double>(work.bytes) / (bytes * hardware.memory_bandwidth);
  return time;
}

void use_number(std::string_view name, std::string_view used_for, const SoftwareProfile& software, SourceLog& log) {
  const auto found = software.provenance.find(std::string(name));
  if (found != software.provenance.end()) log.use(found->second, software.name, found->first, used_for);
}

/// Tensor cores want rows of 16 bytes: where a head is no multiple of 8 elements, a framework that does not
/// pad runs the products of its attention on slower kernels.
Seconds batched_matmul_time(const KernelWork& work, const HardwareProfile& hardware,
                            const SoftwareProfile& software, double speed, SourceLog& log) {
  constexpr std::int64_t kAlignedElements = 8;
  const Seconds time = matmul_time(work, hardware.batched_matmul, hardware, speed);
  if (work.head_dim % kAlignedElements == 0) return time;
  use_number("unaligned_attention_factor", "heads of " + std::to_string(work.head_dim), software, log);
  return time * software.unaligned_attention_factor;
}

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

bool SourceLog::knows(const void* id) const {
  return std::any_of(uses_.begin(), uses_.end(), [id](const Use& use) { return use.id == id; });
}

void SourceLog::use(const Provenance& provenance, std::string_view owner, std::string_view entry,
                    std::string_view used_for) {
  if (knows(&provenance)) return;
  std::string name(owner);
  name += '.';
  name += entry;
  uses_.push_back(
      {&provenance, {std::move(name), provenance.kind, std::string(used_for), provenance.note}});
}

void SourceLog::use(const LinkClass& link, const LinkCurve& curve, std::string_view entry,
                    std::string_view used_for) {
  if (knows(&curve.provenance)) return;
  use(curve.provenance, link.name.empty() ? link.kind : link.name, entry, used_for);
  if (!curve.provenance.note.empty()) return;
  uses_.back().entry.kind = link.provenance;
  uses_.back().entry.note = link.source;
}

std::vector<SourceEntry> SourceLog::entries() const {
  std::vector<SourceEntry> entries;
  entries.reserve(uses_.size());
  for (const Use& use : uses_) entries.push_back(use.entry);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SourceEntry& a, const SourceEntry& b) { return a.name < b.name; });
  entries.erase(
      std::unique(entries.begin(), entries.end(),
                  [](const SourceEntry& a, const SourceEntry& b) { return a.name == b.name; }),
      entries.end());
  return entries;
}

std::optional<std::string> unsupported(const HardwareProfile& hardware, DType type) {
  if (hardware.peak.count(type) != 0) return std::nullopt;
  std::string has;
  for (const auto& [known, rate] : hardware.peak) {
    if (!has.empty()) has += ", ";
    has += to_string(known);
  }
  return hardware.name + " has no rate for products in " + std::string(to_string(type)) +
         "; it has " + has;
}

Seconds kernel_time(const KernelWork& work, const HardwareProfile& hardware,
                    const SoftwareProfile& software, double speed, SourceLog& log) {
  check(speed > 0, "a device has a speed");
  const std::string& device = hardware.name;
  const auto use_rates = [&](std::string_view used_for) {
    log.use(hardware.peak_provenance, device, "peak", used_for);
    log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
  };
  switch (work.cls) {
    case KernelClass::kNone:
      return 0;
    case KernelClass::kMatmul:
      use_rates("products");
      log.use(hardware.matmul.provenance, device, "matmul", "linear layers");
      return matmul_time(work, hardware.matmul, hardware, speed);
    case KernelClass::kBatchedMatmul:
      use_rates("products");
      log.use(hardware.batched_matmul.provenance, device, "batched_matmul", "unfused attention");
      return batched_matmul_time(work, hardware, software, speed, log);
    case KernelClass::kFlashAttention: {
      use_rates("products");
      const AttentionCurve& curve = attention_curve(hardware, software);
      const bool best = &curve == &hardware.flash_attention;
      log.use(curve.provenance, device, best ? "flash_attention" : software.flash_kernel,
              "flash attention");
      return attention_time(work, curve, hardware, speed);
    }
    case KernelClass::kMemoryBound: {
      std::string_view entry;
      const MemoryCurve& curve = memory_curve(hardware, work.kind, entry);
      log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
      log.use(curve.provenance, device, entry, "memory-bound kernels");
      use_number("memory_bound_factor", "memory-bound kernels", software, log);
      return memory_time(static_cast<double>(work.bytes) * software.memory_bound_factor, curve,
                         hardware);
    }
    case KernelClass::kOptimizer:
      log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
      log.use(hardware.optimizer.provenance, device, "optimizer", "the update of the weights");
      return memory_time(static_cast<double>(work.bytes), hardware.optimizer, hardware);
  }
  bug("a kernel class without a form");
}

Seconds gradient_copy_time(std::int64_t elements, const HardwareProfile& hardware,
                           const SoftwareProfile& software, SourceLog& log) {
  if (elements == 0 || software.gradient_traffic == 0) return 0;
  use_number("gradient_traffic", "copies of gradients", software, log);
  std::string_view entry;
  const MemoryCurve& curve = memory_curve(hardware, OpKind::kCast, entry);
  log.use(curve.provenance, hardware.name, entry, "memory-bound kernels");
  return static_cast<double>(elements) * software.gradient_traffic /
         (curve.efficiency * hardware.memory_bandwidth);
}

Seconds launch_time(const HardwareProfile& hardware, const SoftwareProfile& software,
                    std::int64_t tensor, SourceLog& log) {
  log.use(hardware.launch_provenance, hardware.name, "launch", "issuing ops");
  use_number("launch_factor", "issuing ops", software, log);
  if (tensor > 1) use_number("launch_growth", "issuing ops", software, log);
  const auto degree = static_cast<double>(std::min<std::int64_t>(tensor, 8));
  const double growth = tensor > 1 ? software.launch_growth * degree * degree : 0;
  return hardware.launch * software.launch_factor * (1 + growth);
}

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
