// Reads the `kernels` of a hardware profile: curves that `trainyard calibrate` measured, form by
// form.
#pragma once

#include <memory>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// What the numbers of a point stand for, in their order: the shape (KernelWork's m, n, k, batch),
/// FLOP, bytes, microseconds, and half of the time's 90 % interval over the time.
inline constexpr const char* kPointColumns = "m n k batch flop bytes us interval";

/// What a point may hold at most.
inline constexpr Flop kMostPointFlop = 1e24;
inline constexpr Bytes kMostPointBytes = Bytes{1} << 50;

/// By ascending number of ranks. Throws ConfigError at the entry that is wrong: also at a kernel
/// that computes or moves bytes faster than the profile says its device can, by more than
/// kMostOverStated. `stated`: whose peak and memory_bandwidth have been read.
std::vector<std::shared_ptr<const MeasuredKernels>> read_measured_kernels(
    const YamlNode& node, const HardwareProfile& stated);

}  // namespace trainyard
