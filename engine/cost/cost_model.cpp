#include "engine/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/cost/further_kernels.h"
#include "engine/cost/memory_time.h"
#include "engine/cost/ring_merges.h"
#include "engine/cost/unaligned_rows.h"

namespace trainyard {

namespace {

FlopPerSecond peak_rate(const HardwareProfile& hardware, DType type) {
  const auto found = hardware.peak.find(product_type(hardware, type));
  check(found != hardware.peak.end() && found->second > 0,
        "a product in a type that the device lacks; ask unsupported() first");
  return found->second;
}

/// The curve of the kernel that the framework has for the op.
const MemoryCurve& memory_curve(const KernelWork& work, const HardwareProfile& hardware,
                                const SoftwareProfile& software, std::string_view& entry) {
  const bool persistent = work.kind == OpKind::kLayerNorm && software.persistent_layer_norm &&
                          persistent_layer_norm_has(work.n) &&
                          hardware.memory_bound.count(kPersistentLayerNorm) != 0;
  return memory_curve(hardware, persistent ? kPersistentLayerNorm : to_string(work.kind), entry);
}

/// Whether tensor cores multiply the type, of a device that has them.
bool on_tensor_cores(DType type) {
  return type == DType::kFp16 || type == DType::kBf16 || type == DType::kTf32;
}

const MatmulCurve& convolution_curve(const HardwareProfile& hardware, DType type) {
  return on_tensor_cores(type) ? hardware.convolution : hardware.plain_convolution;
}
/// The curve of linear layers in `type`, and its entry in the profile.
std::pair<const MatmulCurve*, std::string_view> linear_curve(const HardwareProfile& hardware,
                                                             DType type) {
  if (product_type(hardware, type) == DType::kFp8) return {&hardware.fp8_matmul, "fp8_matmul"};
  return {&hardware.matmul, "matmul"};
}

std::string_view convolution_entry(DType type) {
  return on_tensor_cores(type) ? "convolution" : "plain_convolution";
}

Seconds matmul_time(const KernelWork& work, const MatmulCurve& curve,
                    const HardwareProfile& hardware, double speed) {
  const double factor = work.part == OpPart::kWeightGrad ? curve.weight_gradient_factor : 1;
  const double flop = work.winograd ? work.flop / curve.winograd : work.flop;
  const double compute = flop / (curve.flop_efficiency * peak_rate(hardware, work.dtype));
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

Seconds batched_matmul_time(const KernelWork& work, const HardwareProfile& hardware,
                            const SoftwareProfile& software, double of_curve, SourceLog& log) {
  const auto time = [&](double speed) {
    return matmul_time(work, hardware.batched_matmul, hardware, speed);
  };
  if (work.kind == OpKind::kBmm || work.kind == OpKind::kChunkScan)
    return time(product_speed(work, hardware, of_curve, log));
  use_number("attention_factor", "unfused attention", software, log);
  // What a framework's libraries did with such heads goes before what those measured here do.
  if (software.unaligned_attention_factor == 1 || work.head_dim % kAlignedElements == 0)
    return software.attention_factor * time(product_speed(work, hardware, of_curve, log));
  use_number("unaligned_attention_factor", "heads of " + std::to_string(work.head_dim), software,
             log);
  return software.attention_factor * software.unaligned_attention_factor *
         time(of_curve * hardware.sustained.products);
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

void SourceLog::use(const std::vector<SourceEntry>& entries) {
  for (const SourceEntry& entry : entries) uses_.push_back({nullptr, entry});
}

void SourceLog::extrapolate(const Provenance& provenance) {
  for (Use& use : uses_) {
    if (use.id == &provenance) use.entry.extrapolated = true;
  }
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

namespace {

/// Tensor cores want channels last: images that are not so are copied there and back, each read and
/// written once more.
Seconds image_copy_time(const KernelWork& work, const HardwareProfile& hardware,
                        const SoftwareProfile& software, SourceLog& log) {
  if (!software.image_copies || !on_tensor_cores(work.dtype)) return 0;
  use_number("image_copies", "convolutions", software, log);
  return memory_time(2 * static_cast<double>(work.images), to_string(OpKind::kTranspose), hardware,
                     log);
}

/// What a framework's own kernels take to merge the blocks of a ring.
Seconds merge_time(const KernelWork& work, const HardwareProfile& hardware,
                   const SoftwareProfile& software, SourceLog& log) {
  if (!software.merges_blocks || work.blocks == 0) return 0;
  use_number("merges_blocks", "attention round a ring", software, log);
  return memory_time(merged_bytes(work), to_string(OpKind::kAdd), hardware, log);
}

/// Time by the curve that the kernel follows.
Seconds curve_time(const KernelWork& work, const HardwareProfile& hardware,
                   const SoftwareProfile& software, double of_curve, SourceLog& log) {
  check(of_curve > 0, "a device has a speed");
  const std::string& device = hardware.name;
  const auto use_rates = [&](std::string_view used_for, double sustained) {
    log.use(hardware.peak_provenance, device, "peak", used_for);
    log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
    if (sustained != 1) log.use(hardware.sustained.provenance, device, "sustained", used_for);
  };
  switch (work.cls) {
    case KernelClass::kNone: return 0;
    case KernelClass::kMatmul: {
      use_rates("products", hardware.sustained.products);
      const auto [curve, entry] = linear_curve(hardware, work.dtype);
      log.use(curve->provenance, device, entry, "linear layers");
      use_number("product_factor", "linear layers", software, log);
      const double speed = product_speed(work, hardware, of_curve, log);
      return software.product_factor * matmul_time(work, *curve, hardware, speed);
    }
    case KernelClass::kConvolution: {
      // A network of convolutions waits for memory half of its time: no power limit slows it.
      use_rates("convolutions", 1);
      const MatmulCurve& curve = convolution_curve(hardware, work.dtype);
      log.use(curve.provenance, device, convolution_entry(work.dtype), "convolutions");
      use_number("product_factor", "linear layers", software, log);
      return software.product_factor * matmul_time(work, curve, hardware, of_curve) +
             image_copy_time(work, hardware, software, log);
    }
    case KernelClass::kBatchedMatmul:
      use_rates("products", hardware.sustained.products);
      log.use(hardware.batched_matmul.provenance, device, "batched_matmul", "unfused attention");
      return batched_matmul_time(work, hardware, software, of_curve, log);
    case KernelClass::kFlashAttention: {
      use_rates("attention", hardware.sustained.attention);
      const AttentionCurve& curve = attention_curve(hardware, software);
      const bool best = &curve == &hardware.flash_attention;
      log.use(curve.provenance, device, best ? "flash_attention" : software.flash_kernel,
              "flash attention");
      return attention_time(work, curve, hardware, of_curve * hardware.sustained.attention) +
             merge_time(work, hardware, software, log);
    }
    case KernelClass::kMemoryBound: {
      std::string_view entry;
      const MemoryCurve& curve = memory_curve(work, hardware, software, entry);
      log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
      log.use(curve.provenance, device, entry, "memory-bound kernels");
      // What a framework adds to the kernels of activations it does not add to those of gradients.
      double factor = 1;
      if (!work.of_gradients && !work.plain_copy) {
        use_number("memory_bound_factor", "memory-bound kernels", software, log);
        factor = software.memory_bound_factor;
      }
      if (work.head_dim > 0) {
        use_number("attention_factor", "unfused attention", software, log);
        factor *= software.attention_factor;
      }
      return memory_time(moved_bytes(work, software, log) * factor, curve, hardware);
    }
    case KernelClass::kOptimizer:
      log.use(hardware.bandwidth_provenance, device, "bandwidth", "kernels");
      log.use(hardware.optimizer.provenance, device, "optimizer", "the update of the weights");
      return memory_time(static_cast<double>(work.bytes) + update_bytes(work, software, log),
                         hardware.optimizer, hardware);
  }
  bug("a kernel class without a form");
}

/// What the framework's kernels of this class take, over what they take here.
double framework_factor(const KernelWork& work, const SoftwareProfile& software, SourceLog& log) {
  switch (work.cls) {
    case KernelClass::kMatmul:
    case KernelClass::kConvolution:
      use_number("product_factor", "linear layers", software, log);
      return software.product_factor;
    case KernelClass::kBatchedMatmul:
      use_number("attention_factor", "unfused attention", software, log);
      return software.attention_factor;
    case KernelClass::kMemoryBound:
      if (work.of_gradients || work.plain_copy) return 1;
      use_number("memory_bound_factor", "memory-bound kernels", software, log);
      return software.memory_bound_factor;
    default: return 1;
  }
}

/// As timed on this device, where kernels of this family were.
std::optional<Seconds> measured_time(const KernelWork& work, const HardwareProfile& hardware,
                                     const SoftwareProfile& software, double speed,
                                     SourceLog& log) {
  if (hardware.kernels == nullptr) return std::nullopt;
  const std::optional<OpCurve::Estimate> estimate = hardware.kernels->curves.at(work);
  if (!estimate) return std::nullopt;
  const KernelForm form = *hardware.kernels->curves.nearest_form(work.form);
  const Provenance& provenance = hardware.kernels->forms.at(form);
  log.use(provenance, hardware.name, "kernels." + to_string(form), "kernels of this form");
  if (estimate->extrapolated || hardware.more_ranks) log.extrapolate(provenance);
  const double computing = work.flop > 0 ? 1 / speed : 1;
  return estimate->time * computing * framework_factor(work, software, log);
}

}  // namespace

void use_number(std::string_view name, std::string_view used_for, const SoftwareProfile& software,
                SourceLog& log) {
  const auto found = software.provenance.find(name);
  if (found != software.provenance.end())
    log.use(found->second, software.name, found->first, used_for);
}

Seconds kernel_time(const KernelWork& work, const HardwareProfile& hardware,
                    const SoftwareProfile& software, double speed, SourceLog& log) {
  if (work.cls == KernelClass::kNone) return 0;
  use_number("kernel_floor_us", "small kernels", software, log);
  const std::optional<Seconds> measured = measured_time(work, hardware, software, speed, log);
  const Seconds time = measured ? *measured
                                : curve_time(work, hardware, software, speed, log) +
                                      further_kernels_time(work, hardware, software, log);
  return std::hypot(software.kernel_floor_us * 1e-6, time);
}

KernelUncertainty kernel_uncertainty(const KernelWork& work, const HardwareProfile& hardware,
                                     const SoftwareProfile& software) {
  const std::string device = hardware.name + ".";
  if (hardware.kernels != nullptr) {
    if (const auto estimate = hardware.kernels->curves.at(work)) {
      return {device + "kernels." + to_string(*hardware.kernels->curves.nearest_form(work.form)),
              estimate->interval * hardware.kernels->interval_factor};
    }
  }
  switch (work.cls) {
    case KernelClass::kNone: return {};
    case KernelClass::kMatmul: {
      const auto [curve, entry] = linear_curve(hardware, work.dtype);
      return {device + std::string(entry), curve->provenance.interval};
    }
    case KernelClass::kConvolution:
      return {device + std::string(convolution_entry(work.dtype)),
              convolution_curve(hardware, work.dtype).provenance.interval};
    case KernelClass::kBatchedMatmul:
      return {device + "batched_matmul", hardware.batched_matmul.provenance.interval};
    case KernelClass::kFlashAttention: {
      const AttentionCurve& curve = attention_curve(hardware, software);
      const bool best = &curve == &hardware.flash_attention;
      return {device + (best ? "flash_attention" : software.flash_kernel),
              curve.provenance.interval};
    }
    case KernelClass::kMemoryBound: {
      std::string_view entry;
      const MemoryCurve& curve = memory_curve(work, hardware, software, entry);
      return {device + std::string(entry), curve.provenance.interval};
    }
    case KernelClass::kOptimizer:
      return {device + "optimizer", hardware.optimizer.provenance.interval};
  }
  bug("a kernel class without a form");
}

Seconds gradient_copy_time(std::int64_t elements, const HardwareProfile& hardware,
                           const SoftwareProfile& software, SourceLog& log) {
  if (elements == 0 || software.gradient_traffic == 0) return 0;
  use_number("gradient_traffic", "copies of gradients", software, log);
  std::string_view entry;
  const MemoryCurve& curve = memory_curve(hardware, to_string(OpKind::kCast), entry);
  log.use(curve.provenance, hardware.name, entry, "memory-bound kernels");
  return static_cast<double>(elements) * software.gradient_traffic /
         (curve.efficiency * hardware.memory_bandwidth);
}

Seconds host_update_time(std::int64_t parameters, std::int64_t ranks, const Cluster& cluster,
                         SourceLog& log) {
  const HostMemory& host = cluster.host;
  if (!host.update_provenance.note.empty())
    log.use(host.update_provenance, cluster.name, "host.update_rate", "updates by the host");
  return static_cast<double>(parameters) * static_cast<double>(ranks) / host.update_rate;
}

double piece_sum_rate(const HardwareProfile& hardware, const SoftwareProfile& software,
                      SourceLog& log) {
  if (!software.runs_async_tensor) return 0;
  use_number("async_tensor", "sums of the pieces of a reduce-scatter", software, log);
  std::string_view entry;
  const MemoryCurve& curve = memory_curve(hardware, to_string(OpKind::kAdd), entry);
  log.use(curve.provenance, hardware.name, entry, "memory-bound kernels");
  return 1 / (curve.efficiency * hardware.memory_bandwidth);
}

}  // namespace trainyard
