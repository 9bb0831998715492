// `recompute: {method: stage-aware, first: auto}`: the largest share that the devices have memory
// for.
#pragma once

#include "app/prepare.h"

namespace trainyard {

/// Fills in recompute.first where the study leaves it to memory: of the shares behind which a stage
/// keeps one layer (or sublayer) more, the largest with which every rank's peak (memory/memory.h,
/// as `compile` counts it) is within its device. Peaks do not fall as the share rises (a layer that
/// is kept takes its activations for every microbatch in flight, one that is recomputed for fewer),
/// so the largest is found by bisection. 0 where not even that fits, or where the study has no
/// Program.
void search_recompute(Prepared& prepared);

}  // namespace trainyard
