// Reads the `kernels` of a hardware profile: curves that `trainyard calibrate` measured, form by
// form.
#pragma once

#include <memory>
#include <vector>

#include "engine/config/yaml_reader.h"
#include "engine/cost/hardware_profile.h"

namespace trainyard {

/// What the numbers of a point stand for, in their order: the shape (KernelWork's m, n, k, batch),
/// FLOP, bytes, microseconds, and half of the time's 90 % interval over the time.
inline constexpr const char* kPointColumns = "m n k batch flop bytes us interval";

/// By ascending number of ranks. Throws ConfigError at the entry that is wrong.
std::vector<std::shared_ptr<const MeasuredKernels>> read_measured_kernels(const YamlNode& node);

}  // namespace trainyard
