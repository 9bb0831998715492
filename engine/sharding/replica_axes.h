// Which replica a rank of a mesh belongs to, where pipeline ranks have unlike numbers of them. The
// axis that has a size for each pipeline rank may be one of several, where replicas form groups
// (dp0) or have neighbours (dp2): then a replica's number is its place over the list of the mesh
// that has the unlike axis, dp0 dp1 dp2, and of any number of groups there are as many at all
// pipeline ranks.
#pragma once

#include <cstdint>
#include <string>

#include "engine/sharding/device_mesh.h"

namespace trainyard {

/// The axes that tell replicas apart, the slowest first; empty: all pipeline ranks have the same.
Axes replica_axes(const DeviceMesh& mesh);
/// What the mesh calls them together; they are not empty.
std::string replica_axes_name(const DeviceMesh& mesh);

std::int32_t num_replicas(const DeviceMesh& mesh, std::int32_t pipeline_rank);
std::int32_t replica_of(const DeviceMesh& mesh, const Coordinate& at);
/// Moves `at` to a replica of its pipeline rank, which has one of this number.
void move_to_replica(const DeviceMesh& mesh, std::int32_t replica, Coordinate& at);

}  // namespace trainyard
