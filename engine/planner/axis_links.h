// What a simulated cluster's links are for collectives along the axes of a mesh.
#pragma once

#include <cstdint>

#include "engine/cluster/cluster.h"
#include "engine/cluster/pair_mesh.h"
#include "engine/sharding/device_mesh.h"
#include "engine/sharding/move_cost.h"

namespace trainyard {

/// [axis of `mesh`]: a line through two all-gathers of the axis's first group, of 1 and 64 MiB; not
/// faster than the slowest pair on it (`pairs`, or empty: not known), nor than the busiest link
/// while all groups of `tensor` along the axis have a ring at once. Ranks of `tensor` are `stride`
/// devices apart. 0 for other axes.
Numbered<AxisLink> axis_links(const DeviceMesh& mesh, const Axes& tensor, std::int64_t stride,
                              const Cluster& cluster, const PairCosts& pairs);

}  // namespace trainyard
