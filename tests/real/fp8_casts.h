// Casts into 8 bits and their scales, by the kernels alone and within a run. Apart from the tests,
// since LibTorch's headers have a CHECK of their own.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/graph/graph.h"

namespace trainyard {

struct Fp8Cast {
  std::vector<std::uint8_t> bytes;  // of each element
  std::vector<float> scales;        // row by row
};

/// x [rows, columns] in the bits of bf16; {0, 0}: by its largest element.
Fp8Cast cast_by_kernels(const std::vector<std::uint8_t>& x, std::int64_t rows, std::int64_t columns,
                        DType type, HeightWidth window, bool e8m0);

/// Scales of delayed scaling behind each step: amaxes[step], of numbers up to `largest`.
std::vector<float> delayed_scales(const std::vector<float>& amaxes, float largest);

struct DelayedCast {
  float amax = 0;   // noted so far
  float value = 0;  // of each element, before its scale
};
/// What a cast of equal numbers makes of them, by a scale, where `noted` was the largest so far.
DelayedCast cast_by_history(float number, float scale, float noted);

/// Scales of the first step's casts of values whose names begin with `name`, on all ranks.
std::set<float> scales_of_run(const std::string& yaml, const std::vector<std::string>& sets,
                              const std::string& name);

/// Those of weights that are gathered in 8 bits.
std::set<float> shard_scales_of_run(const std::string& yaml, const std::vector<std::string>& sets);

}  // namespace trainyard
