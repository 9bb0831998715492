#include "real/parameters/rank_coordinates.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

RankCoordinates coordinates_of(const Program& program, std::int64_t rank) {
  RankCoordinates at{};
  for (Axis axis : kAllAxes) {
    const std::int64_t stride = program.placement.stride[axis];
    const std::int32_t size = program.mesh[axis];
    at[axis] = size == 1 ? 0 : static_cast<std::int32_t>(rank / stride % size);
  }
  check(rank_at(program, at) == rank, "the placement is a bijection");
  return at;
}

std::int64_t rank_at(const Program& program, const RankCoordinates& at) {
  std::int64_t rank = 0;
  for (Axis axis : kAllAxes) rank += at[axis] * program.placement.stride[axis];
  return rank;
}

std::vector<std::int64_t> members_of(const Program& program, const Group& group,
                                     const RankCoordinates& at) {
  const auto listed = [&](std::int32_t stage) {
    return group.members.empty() ||
           std::find(group.members.begin(), group.members.end(), stage) != group.members.end();
  };
  const bool along_pp =
      std::find(group.axes.begin(), group.axes.end(), Axis::kPp) != group.axes.end();
  if (along_pp && !listed(at[Axis::kPp])) return {};
  std::vector<RankCoordinates> all = {at};
  for (Axis axis : group.axes) {
    std::vector<RankCoordinates> next;
    for (const RankCoordinates& one : all) {
      for (std::int32_t k = 0; k < program.mesh[axis]; ++k) {
        if (axis == Axis::kPp && !listed(k)) continue;
        next.push_back(one);
        next.back()[axis] = k;
      }
    }
    all = std::move(next);
  }
  std::vector<std::int64_t> ranks;
  for (const RankCoordinates& one : all) ranks.push_back(rank_at(program, one));
  return ranks;
}

std::int64_t peer_of(const Program& program, const Transfer& transfer, const RankCoordinates& at) {
  RankCoordinates peer = at;
  const std::int32_t size = program.mesh[transfer.axis];
  peer[transfer.axis] = ((at[transfer.axis] + transfer.offset) % size + size) % size;
  return rank_at(program, peer);
}

std::int64_t shard_start(const ShardingSpec& spec, int dim, std::int64_t extent, const Mesh& mesh,
                         const RankCoordinates& at) {
  // Several axes on one dim: the first listed varies slowest.
  std::int64_t index = 0;
  for (Axis axis : kAllAxes) {
    if (spec[axis] == shard(dim)) index = index * mesh[axis] + at[axis];
  }
  return index * extent;
}

std::int64_t global_extent(const ShardingSpec& spec, int dim, std::int64_t extent,
                           const Mesh& mesh) {
  for (Axis axis : kAllAxes) {
    if (spec[axis] == shard(dim)) extent *= mesh[axis];
  }
  return extent;
}

}  // namespace trainyard
