// Pass: replaces what a model says (attention, linear with bias, dropout, add) by the kernels that
// the chosen framework runs for it: flash or unfused attention, fused bias-gelu, fused
// bias-dropout-add. What kernels are chosen decides what is saved for the backward, so this comes
// before everything else.
#pragma once

#include "engine/cost/software_profile.h"
#include "engine/graph/graph.h"

namespace trainyard {

/// `flash`: attention without a trained score bias runs as one flash kernel.
Graph select_kernels(const Graph& model, const SoftwareProfile& software, bool flash);

}  // namespace trainyard
