// Who a rank's partners are, and which part of a tensor it has.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// The ranks of `group` that communicate with the one at `at`, in the order of the group's axes;
/// empty when it is not a member (a weight shared by other stages).
std::vector<std::int64_t> members_of(const Program& program, const Group& group,
                                     const Coordinate& at);

/// The rank that a send of `transfer` goes to, or that a receive comes from.
std::int64_t peer_of(const Program& program, const Transfer& transfer, const Coordinate& at);

/// Which replica the rank at `at` belongs to: those read different samples.
std::int64_t replica_at(const Program& program, const Coordinate& at);

/// Which of the ranks with the same parameters: of all replicas, those that share sequences apart.
std::int64_t copy_at(const Program& program, const Coordinate& at);

/// Samples of a microbatch that a replica has before those of the value's rows that lie at `at`: 0
/// but where ranks along tensor axes have samples of their own.
std::int64_t first_row(const Program& program, const Value& value, const Coordinate& at);

/// How many replicas have each element of a tensor: 1 where all have samples of their own.
std::int64_t replicas_alike(const TensorSpec& spec, const DeviceMesh& slice);

/// First index along `dim` of the part of a tensor that lies at `at`, when the local extent is
/// `extent`.
std::int64_t shard_start(const TensorSpec& spec, int dim, std::int64_t extent,
                         const DeviceMesh& mesh, const Coordinate& at);
/// The extent along `dim` of the whole tensor. `slice`: of the mesh, where the part lies.
std::int64_t global_extent(const TensorSpec& spec, int dim, std::int64_t extent,
                           const DeviceMesh& slice);

/// Whether all parts of a dim are cut alike, so that a rank has one place in it.
bool is_cut_alike(const DimSplit& dim);

/// The extents of the whole tensor of which a rank has `local`: parts may be cut unlike.
Extents global_extents(const TensorSpec& spec, const Dims& local, const DeviceMesh& slice);

/// First element of `whole`, viewed as one dim, that lies in its slice of `elements` at `at`.
std::int64_t slice_start(const TensorSpec& slice, const TensorSpec& whole, std::int64_t elements,
                         const DeviceMesh& mesh, const Coordinate& at);

/// Whether of the ranks of a replica that have the same part of a tensor, the one at `at` is first.
bool first_of_copies(const TensorSpec& spec, const Program& program, const Coordinate& at);

}  // namespace trainyard
