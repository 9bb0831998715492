// Workspace of the ops of general graphs and of image models that are neither products nor norms
// over features.
#pragma once

#include <cstdint>
#include <optional>

#include "real/kernels/op_sizes.h"

namespace trainyard {

/// nullopt: not a kind of these. 0 where a kernel computes element by element into its result.
std::optional<std::int64_t> general_workspace(OpKind kind, OpPart part, const OpSizes& sizes);

/// A convolution of x with w to y: its windows as columns of a matrix, [C / groups, window] x
/// [N, u, z], which the backends of LibTorch that multiply matrices write out for the whole batch;
/// and what those that take groups one by one, or tensors in blocks of channels, copy of operands
/// and results; each thread may have sums of the weight's gradient of its own.
std::int64_t convolution_workspace(const OpSizes& sizes, const OperandSize& x, const OperandSize& w,
                                   const OperandSize& y);

}  // namespace trainyard
