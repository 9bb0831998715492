// What no pipeline takes less than whose stages are not alike: a model divided among them at will.
#pragma once

#include <vector>

#include "engine/base/units.h"

namespace trainyard {

/// The least time in which stages that follow one another do all pieces of a model, in their order,
/// if cuts may divide pieces. [stage][piece] seconds of a step that the stage takes for all pieces
/// before it, and behind the last for all.
Seconds balanced_bound(const std::vector<std::vector<Seconds>>& before);

}  // namespace trainyard
