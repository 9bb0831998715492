#include "engine/cost/cpu_profile.h"

#include <algorithm>

namespace trainyard {

const CpuProfile& cpu_profile(const std::vector<std::string>& flags) {
  static const std::vector<CpuProfile> kProfiles = {
      {"cpu-amx", {"amx_tile", "amx_bf16"}}, {"cpu-avx512-bf16", {"avx512_bf16"}}, {"cpu", {}}};
  const auto has = [&](const std::string& flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  return *std::find_if(kProfiles.begin(), kProfiles.end(), [&](const CpuProfile& profile) {
    return std::all_of(profile.flags.begin(), profile.flags.end(), has);
  });
}

}  // namespace trainyard
