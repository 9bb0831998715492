// Where a rank stands on the device mesh, and who its partners are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

using RankCoordinates = IndexedArray<Axis, std::int32_t, kNumAxes>;

/// The coordinates of `rank` in [0, num_ranks) under the Program's placement.
RankCoordinates coordinates_of(const Program& program, std::int64_t rank);
std::int64_t rank_at(const Program& program, const RankCoordinates& at);

/// The ranks of `group` that communicate with the one at `at`, in the order of their coordinates;
/// empty when it is not a member (a weight shared by other stages).
std::vector<std::int64_t> members_of(const Program& program, const Group& group,
                                     const RankCoordinates& at);

/// The rank that a send of `transfer` goes to, or that a receive comes from.
std::int64_t peer_of(const Program& program, const Transfer& transfer, const RankCoordinates& at);

/// First index along `dim` of the part of a tensor that lies at `at`, when the local extent is
/// `extent`.
std::int64_t shard_start(const ShardingSpec& spec, int dim, std::int64_t extent, const Mesh& mesh,
                         const RankCoordinates& at);
/// The extent along `dim` of the whole tensor.
std::int64_t global_extent(const ShardingSpec& spec, int dim, std::int64_t extent,
                           const Mesh& mesh);

}  // namespace trainyard
