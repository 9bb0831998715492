// One entry per op kind, and one place to look for each fact about it: what its backward reads, in
// how many instructions the backward comes, what a kernel of it computes and moves.
//
// Backward instructions read, in this order: the gradients of the outputs, the saved inputs, the
// saved outputs. They write the gradients of the inputs that are activations and accumulate those
// of the inputs that are parameters.
#pragma once

#include <cstdint>
#include <span>

#include "engine/graph/graph.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

enum class BackwardForm : std::uint8_t {
  kNone,     // no gradient flows (integer inputs, statistics)
  kAlias,    // the gradient of the output is that of every input: no instruction. Where dims were
             // repeated, _dx and _dw sum over them
  kApart,    // _dx for the inputs and _dw for the parameters: each only where needed
  kFactors,  // of two operands, the last: _dx for the first, _dw for the second, whatever they are
  kFused,    // _b: both halves in one kernel
  kSpecial,  // collectives, views, transfers: differentiate.cpp says how
};

struct OpInfo {
  BackwardForm backward = BackwardForm::kNone;
  KernelClass kernel = KernelClass::kMemoryBound;
  bool gradient_in = true;           // the backward reads the output's gradient (a loss's does not)
  std::uint8_t dx_saved_inputs = 0;  // bit i: _dx (or _b) reads input i
  std::uint8_t dx_saved_outputs = 0;  // bit i: _dx (or _b) reads output i
  std::uint8_t dw_saved_inputs = 0;   // bit i: _dw reads input i
  std::uint8_t weights = 0;           // kApart, kFused: bit i: _dw (or _b) adds to the gradient of
                                      // input i, a parameter
  std::int8_t alias_input = -1;  // this input's gradient is the output's itself; kFactors: where
                                 // nothing of it was repeated
};

const OpInfo& op_info(OpKind kind);

/// Kinds whose operands may be of any shape.
bool is_general(OpKind kind);

/// Losses that are the mean of something over all elements of their operands in a step.
inline bool is_mean_loss(OpKind kind) { return kind == OpKind::kMse || kind == OpKind::kBce; }

/// Whether what the instruction writes lies in what it reads, or the other way round: no kernel.
bool makes_views(OpKind kind, OpPart part, const OpAttrs& attrs);

}  // namespace trainyard
