// Which of the shipped profiles of CPU cores is that of a processor: 16-bit GEMMs are tens of
// times as fast where it has instructions for them.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct CpuProfile {
  std::string name;                // of calibrate/profiles: cpu-amx
  std::vector<std::string> flags;  // what the processor must have for it; none: any
};

/// The first whose flags are all among `flags`, as /proc/cpuinfo spells them (amx_tile,
/// avx512_bf16,
/// ...). Of no flags, or those of other architectures, it is `cpu`.
const CpuProfile& cpu_profile(const std::vector<std::string>& flags);

}  // namespace trainyard
