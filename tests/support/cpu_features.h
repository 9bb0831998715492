// What this machine's CPU lacks that tests have to know.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "system/this_cpu.h"

namespace trainyard {

/// Whether oneDNN multiplies bf16, for which it needs AVX-512; else LibTorch does, without scratch,
/// and a hundred times slower.
inline bool has_avx512() {
  const std::vector<std::string> flags = cpu_flags();
  return std::find(flags.begin(), flags.end(), "avx512f") != flags.end();
}

}  // namespace trainyard
