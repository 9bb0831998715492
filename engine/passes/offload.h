// Pass: what recomputation keeps (the inputs of its regions) waits in the memory of the host for
// the backward, not on the device. Karakus et al., Amazon SageMaker Model Parallelism
// (arXiv:2111.05972), appendix H.3.
//
//   forward   d2h copy x -> x.host     as soon as x is written, beside the layers that read it;
//   then x is freed backward  h2d copy x.host -> x.load,   in place of x for all that reads it
//   there
//
// The copies back go to TrainingGraph::loads: where in a piece of the backward they stand,
// place_loads.h says, since pieces run layers in different orders.
#pragma once

#include <vector>

#include "engine/passes/differentiate.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Behind recompute() and split_backward(). `at_once`: [stage]: the backward of a microbatch
/// follows its forward with nothing between. There, what the first `config.horizon` layers of the
/// backward read stays on the device: it would be due back before it has left. So does what layers
/// of two stages of one rank read.
void offload_checkpoints(TrainingGraph& training, const OffloadConfig& config,
                         const Numbered<bool>& at_once);

}  // namespace trainyard
