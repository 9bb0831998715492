#include "engine/cost/software_profile.h"

namespace trainyard {

SoftwareProfile::SoftwareProfile() = default;
SoftwareProfile::SoftwareProfile(const SoftwareProfile&) = default;
SoftwareProfile::SoftwareProfile(SoftwareProfile&&) noexcept = default;
SoftwareProfile& SoftwareProfile::operator=(const SoftwareProfile&) = default;
SoftwareProfile& SoftwareProfile::operator=(SoftwareProfile&&) noexcept = default;
SoftwareProfile::~SoftwareProfile() = default;

bool persistent_layer_norm_has(std::int64_t width) {
  constexpr std::array<std::int64_t, 24> kWidths = {
      1024,  1536,  2048,  2304,  3072,  3840,  4096,  5120,  6144,  8192,  10240, 12288,
      12800, 15360, 16384, 18432, 20480, 24576, 25600, 30720, 32768, 40960, 49152, 65536};
  return std::binary_search(kWidths.begin(), kWidths.end(), width);
}

}  // namespace trainyard
