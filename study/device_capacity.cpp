#include "study/device_capacity.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/near_names.h"
#include "study/data_folder.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostGiB = 1 << 14;

/// KIND and N of "KIND-Ng", N 0 where the name says none.
std::pair<std::string, std::int64_t> split_capacity(const std::string& device) {
  const std::size_t dash = device.rfind('-');
  if (dash == std::string::npos || dash == 0) return {device, 0};
  std::string_view number = std::string_view(device).substr(dash + 1);
  if (number.empty() || (number.back() != 'g' && number.back() != 'G')) return {device, 0};
  number.remove_suffix(1);
  std::int64_t gib = 0;
  const char* const end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, gib);
  if (parsed.ec != std::errc{} || parsed.ptr != end || gib < 1 || gib > kMostGiB)
    return {device, 0};
  return {device.substr(0, dash), gib};
}

}  // namespace

std::string kind_of_device(const std::string& device) { return split_capacity(device).first; }

std::optional<NameWithCapacity> name_with_capacity(const std::string& root,
                                                   const std::string& device) {
  const auto [kind, gib] = split_capacity(device);
  if (gib == 0) return std::nullopt;
  // By how far its capacity is from the named one, then by name.
  std::vector<std::pair<std::int64_t, std::string>> of_kind;
  for (const std::string& shipped : yaml_names(root + "/calibrate/profiles")) {
    if (same_name(shipped, device)) return std::nullopt;
    const auto [shipped_kind, shipped_gib] = split_capacity(shipped);
    if (!same_name(shipped_kind, kind)) continue;
    of_kind.emplace_back(shipped_gib == 0 ? 0 : std::abs(shipped_gib - gib), shipped);
  }
  if (of_kind.empty()) return std::nullopt;
  return NameWithCapacity{device, std::min_element(of_kind.begin(), of_kind.end())->second,
                          static_cast<Bytes>(static_cast<double>(gib) * kGiB)};
}

HardwareProfile with_capacity(HardwareProfile profile, const NameWithCapacity& named) {
  profile.capacity_of = std::exchange(profile.name, named.device);
  profile.memory_reserved = std::min(profile.memory_reserved, named.capacity - 1);
  profile.memory_capacity = named.capacity;
  profile.memory_provenance = {
      "derived", "as its name says; what is reserved of it as on " + profile.capacity_of, 0};
  return profile;
}

}  // namespace trainyard
