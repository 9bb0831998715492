// Pass: which half of a split backward every backward instruction belongs to.
//
// I leads to the gradient of the stage's input, which the stage before waits for; W holds what
// nobody waits for: instructions that do nothing but add to gradients of parameters, and what only
// those read (the product that a second kernel adds, the gather of a kept shard). Every gradient of
// an activation is I's, on the first stage too, where only the embedding needs it; so is a kernel
// that gives both at once (layer_norm_b), and recomputation.
#pragma once

#include "engine/passes/differentiate.h"

namespace trainyard {

/// Sets Instruction::weight_half.
void split_backward(TrainingGraph& training);

}  // namespace trainyard
