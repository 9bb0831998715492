// Products of which rows in memory are no multiple of 16 bytes.
#pragma once

#include <cstdint>

#include "engine/cost/hardware_profile.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

class SourceLog;

inline constexpr std::int64_t kAlignedElements = 8;  // of 16 bits

/// How many times longer the product's arithmetic takes than with rows of multiples of 8 elements.
/// What is a row depends on how matrices lie: of a linear layer x and dx have rows of its inputs, y
/// and dy of its outputs, weight and gradient of its inputs; attention's products have rows of a
/// head and of the keys. A row of one element is none, and numbers of rows and of products do not
/// matter.
double unaligned_factor(const KernelWork& work, const UnalignedRows& rows);

/// The rate of its arithmetic over the curve's, on a device that works at `of_curve` of its own:
/// what lasts under the limit of power, or what such rows leave, whose kernels stay below it.
double product_speed(const KernelWork& work, const HardwareProfile& hardware, double of_curve,
                     SourceLog& log);

}  // namespace trainyard
