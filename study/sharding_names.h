// The axes that a study's `sharding:` may name, and texts of what it says of them.
#pragma once

#include <string>

#include "engine/plan/plan.h"
#include "engine/sharding/device_mesh.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

/// Axes pp, dp and those of parallel.tensor, those of one rank among them.
DeviceMesh sharding_names(const ParallelConfig& parallel);

/// The spec as text, with R(...) for the axes of `named` that it leaves replicated.
std::string given_text(const TensorSpec& spec, AxisSet named, const DeviceMesh& mesh);

/// What a study gives, without the axes of one rank, which split nothing: no mesh of a plan has
/// them.
std::vector<GivenSharding> without_single_ranks(std::vector<GivenSharding> sharding,
                                                const DeviceMesh& names);

}  // namespace trainyard
