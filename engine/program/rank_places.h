// Where ranks stand on a Program's mesh: its placement, read both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// Gives a Program whose mesh has an unlike axis its placement: the rank of each rank of the mesh,
/// in the mesh's order. What is wrong with them: not each number once.
std::optional<std::string> place_ranks(Program& program, std::vector<std::int64_t> ranks);

std::int32_t coordinate(const Program& program, std::int64_t rank, AxisId axis);
Coordinate coordinate_of(const Program& program, std::int64_t rank);
std::int64_t rank_at(const Program& program, const Coordinate& at);
std::int64_t rank_at(const Placement& placement, const DeviceMesh& mesh, const Coordinate& at);

std::int32_t pipeline_rank(const Program& program, std::int64_t rank);
/// The pipeline rank whose lists call each segment, or others of its stage where none calls it (a
/// forward that always runs in one segment with a gather); 0 where all have the same mesh.
Indexed<SegmentId, std::int32_t> pipeline_ranks_of_segments(const Program& program);
/// Index into Program::body of the list that the rank at `at` runs.
std::size_t list_at(const Program& program, const Coordinate& at);
std::size_t list_of(const Program& program, std::int64_t rank);

/// Its place in its group over these axes, the first axis the slowest.
std::int64_t place_in_group(const Program& program, const Axes& axes, std::int64_t rank);

/// Where the peer of the rank at `at` lies; nullopt: it has none in this transfer.
std::optional<Coordinate> peer_at(const Program& program, const Transfer& transfer,
                                  const Coordinate& at);
/// The same transfer as its receivers have it.
Transfer reversed(const Transfer& transfer);

/// Those of `group` that communicate with the one at `at`, in the order of the group's axes; empty
/// where it is not a member.
std::vector<Coordinate> members_at(const Program& program, const Group& group,
                                   const Coordinate& at);

}  // namespace trainyard
