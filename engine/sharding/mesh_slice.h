// The mesh as the ranks of one pipeline rank see it: their slice of it. What reads sizes of axes
// without knowing where reads them here.
#pragma once

#include "engine/sharding/device_mesh.h"

namespace trainyard {

/// The same axes, each with the size that it has at the pipeline rank.
DeviceMesh mesh_slice(const DeviceMesh& mesh, std::int32_t pipeline_rank);
/// The slice of the rank at `at`.
DeviceMesh mesh_slice(const DeviceMesh& mesh, const Coordinate& at);

}  // namespace trainyard
