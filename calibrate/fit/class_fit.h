// The forms that every hardware profile has, fitted to measured points: for kernels that were not
// measured themselves.
#pragma once

#include <map>

#include "calibrate/result/calibration.h"
#include "engine/base/dtype.h"
#include "engine/cost/hardware_profile.h"

namespace trainyard {

struct ClassFit {
  std::map<DType, FlopPerSecond> peak;  // the best rate of any GEMM of this type, in any set
  BytesPerSecond bandwidth = 0;         // the best rate of any kernel that moves 4 MiB or more
  MatmulCurve matmul, batched_matmul;   // `provenance` says the mean error
  AttentionCurve flash_attention;
  MemoryCurve memory_bound, optimizer;
};

/// To the points of the first set. Throws ConfigError where there is no GEMM or no memory-bound
/// kernel among them.
ClassFit fit_classes(const Calibration& calibration);

}  // namespace trainyard
