// What ONNX's ops that carry elements elsewhere say of dims: of constants and of a graph's tensors
// alike. All throw FoldError where an op does not fit its operand.
#pragma once

#include <cstdint>
#include <vector>

#include "models/onnx/onnx_constant.h"

namespace trainyard {

/// Elements begin, begin + step, ... of an axis, `count` of them.
struct SliceRange {
  std::size_t axis = 0;
  std::int64_t begin = 0, count = 0, step = 1;
};

/// The dims of a Slice with constant bounds: inputs starts, ends[, axes[, steps]] behind its data.
std::vector<SliceRange> slice_ranges(const OnnxNode& node, const std::vector<std::int64_t>& dims,
                                     const FoldInputs& inputs);

std::vector<std::int64_t> squeezed_dims(const std::vector<std::int64_t>& dims,
                                        const std::vector<std::int64_t>& axes);
std::vector<std::int64_t> unsqueezed_dims(const std::vector<std::int64_t>& dims,
                                          const std::vector<std::int64_t>& axes);
std::vector<std::int64_t> flattened_dims(const std::vector<std::int64_t>& dims, std::int64_t axis);
/// The order of a Transpose: reversed where it says none.
std::vector<std::int64_t> transposed_order(const OnnxNode& node, std::size_t dims);
/// The dims of a Split: as given, else even parts of which the last may be smaller.
std::vector<std::int64_t> split_sizes(std::int64_t extent, std::size_t parts,
                                      const std::vector<std::int64_t>& given);

}  // namespace trainyard
