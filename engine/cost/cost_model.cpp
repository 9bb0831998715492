#include "engine/cost/cost_model.h"

#include <algorithm>
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

/// One device's share of its node's bandwidth, `ranks` devices of the node communicating alike.
BytesPerSecond share_of_node(const Cluster& cluster, std::int64_t ranks, bool across_leaves) {
  const BytesPerSecond share = cluster.inter.bandwidth * static_cast<double>(ranks) /
                               static_cast<double>(cluster.devices_per_node);
  return across_leaves ? share / cluster.fabric.oversubscription : share;
}

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
      return matmul_time(work, hardware.batched_matmul, hardware, speed);
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
      const auto factor = software.provenance.find("memory_bound_factor");
      if (factor != software.provenance.end()) {
        log.use(factor->second, software.name, factor->first, "memory-bound kernels");
      }
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

Seconds launch_time(const HardwareProfile& hardware, const SoftwareProfile& software,
                    SourceLog& log) {
  log.use(hardware.launch_provenance, hardware.name, "launch", "issuing ops");
  const auto factor = software.provenance.find("launch_factor");
  if (factor != software.provenance.end()) {
    log.use(factor->second, software.name, factor->first, "issuing ops");
  }
  return hardware.launch * software.launch_factor;
}

Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log) {
  check(is_collective(kind), "collective_time of an op that is none");
  check(group.nodes >= 1 && group.nodes <= group.ranks, "a group lies on 1 to n nodes");
  if (group.ranks == 1) return 0;
  const auto n = static_cast<double>(group.ranks);
  const auto nodes = static_cast<double>(group.nodes);
  const double rounds = kind == OpKind::kAllReduce ? 2 : 1;
  const double share = kind == OpKind::kBroadcast ? 1 : (n - 1) / n;
  const double volume = rounds * share * static_cast<double>(bytes);

  const LinkCurve& intra = cluster.intra.collective;
  const LinkCurve& inter = cluster.inter.collective;
  Seconds startup = 0;
  double per_byte = 0;              // of the slowest edge
  if (group.ranks > group.nodes) {  // some edge of the ring stays inside a node
    log.use(cluster.intra, intra, "collective", "collectives");
    const std::int64_t inside = group.nodes == 1 ? group.ranks : group.ranks_per_node;
    startup = intra.startup;
    per_byte =
        seconds_per_byte(intra, group_efficiency(intra, inside), cluster.intra.bandwidth, bytes);
  }
  if (group.nodes > 1) {
    log.use(cluster.inter, inter, "collective", "collectives");
    startup = std::max(startup, inter.startup);
    const BytesPerSecond bandwidth = share_of_node(cluster, group.ranks_per_node, group.leaves > 1);
    per_byte = std::max(per_byte, seconds_per_byte(inter, inter.efficiency, bandwidth, bytes));
  }
  const double latency = (nodes - 1) * inter.latency + (n - nodes) * intra.latency;
  return startup + rounds * latency + volume * per_byte;
}

Seconds transfer_time(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log) {
  if (distance == Distance::kSameDevice) return 0;
  const bool inside = distance == Distance::kSameNode;
  const LinkClass& link = inside ? cluster.intra : cluster.inter;
  const LinkCurve& curve = link.point_to_point;
  log.use(link, curve, "point_to_point", "sends and receives");
  const BytesPerSecond bandwidth =
      inside ? link.bandwidth : share_of_node(cluster, 1, distance == Distance::kAcrossLeaves);
  return curve.startup + curve.latency +
         static_cast<double>(bytes) * seconds_per_byte(curve, curve.efficiency, bandwidth, bytes);
}

}  // namespace trainyard
