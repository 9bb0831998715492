#include "engine/cost/hardware_profile.h"

namespace trainyard {

HardwareProfile::HardwareProfile() = default;
HardwareProfile::HardwareProfile(const HardwareProfile&) = default;
HardwareProfile::HardwareProfile(HardwareProfile&&) noexcept = default;
HardwareProfile& HardwareProfile::operator=(const HardwareProfile&) = default;
HardwareProfile& HardwareProfile::operator=(HardwareProfile&&) noexcept = default;
HardwareProfile::~HardwareProfile() = default;

HardwareProfile on_ranks(HardwareProfile hardware, std::int64_t ranks) {
  if (hardware.measured.empty()) return hardware;
  hardware.kernels = hardware.measured.front();
  for (const auto& entry : hardware.measured) {
    if (entry->ranks <= ranks) hardware.kernels = entry;
  }
  hardware.more_ranks = hardware.measured.back()->ranks < ranks;
  hardware.launch = hardware.kernels->launch;
  hardware.launch_provenance = hardware.kernels->launch_provenance;
  hardware.slowdown = hardware.kernels->slowdown;
  if (hardware.host_computes && ranks > 1) {
    hardware.memory_capacity /= ranks;
    hardware.memory_reserved /= ranks;
  }
  return hardware;
}

DType product_type(const HardwareProfile& hardware, DType type) {
  const bool fp8 = type == DType::kFp8 || is_fp8(type);
  if (!fp8) return type;
  const bool emulated = hardware.architecture == "cpu" && !hardware.peak.contains(DType::kFp8);
  return emulated ? DType::kFp32 : DType::kFp8;
}

std::optional<std::string> unsupported(const HardwareProfile& hardware, DType type) {
  if (hardware.peak.contains(product_type(hardware, type))) return std::nullopt;
  std::string has;
  for (const auto& [known, rate] : hardware.peak) {
    if (!has.empty()) has += ", ";
    has += to_string(known);
  }
  return hardware.name + " has no rate for products in " + std::string(to_string(type)) +
         "; it has " + has;
}

}  // namespace trainyard
