#include "engine/program/rank_places.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/sharding/replica_axes.h"

namespace trainyard {

std::optional<std::string> place_ranks(Program& program, std::vector<std::int64_t> ranks) {
  const std::int64_t all = program.mesh.num_ranks();
  if (std::ssize(ranks) != all)
    return std::to_string(ranks.size()) + " places for " + std::to_string(all) + " ranks";
  std::vector<std::int64_t> places(ranks.size(), -1);
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const std::int64_t rank = ranks[place];
    if (rank < 0 || rank >= all) return "there is no rank " + std::to_string(rank);
    if (places[rank] >= 0) return "rank " + std::to_string(rank) + " stands twice";
    places[rank] = static_cast<std::int64_t>(place);
  }
  program.placement.ranks = std::move(ranks);
  program.placement.places = std::move(places);
  return std::nullopt;
}

std::int32_t coordinate(const Program& program, std::int64_t rank, AxisId axis) {
  if (!program.placement.places.empty()) return coordinate_of(program, rank)[axis];
  const std::int32_t size = program.mesh.size(axis);
  return size == 1 ? 0 : static_cast<std::int32_t>(rank / program.placement.stride[axis] % size);
}

Coordinate coordinate_of(const Program& program, std::int64_t rank) {
  const Placement& placement = program.placement;
  if (!placement.places.empty()) return coordinate_of(program.mesh, placement.places[rank]);
  Coordinate at;
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis)
    at.push_back(coordinate(program, rank, axis));
  return at;
}

std::int64_t rank_at(const Program& program, const Coordinate& at) {
  return rank_at(program.placement, program.mesh, at);
}

std::int64_t rank_at(const Placement& placement, const DeviceMesh& mesh, const Coordinate& at) {
  if (!placement.ranks.empty()) return placement.ranks[rank_at(mesh, at)];
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) rank += at[axis] * placement.stride[axis];
  return rank;
}

std::int32_t pipeline_rank(const Program& program, std::int64_t rank) {
  const AxisId stages = stage_axis(program.mesh);
  return stages == kNoAxis ? 0 : coordinate(program, rank, stages);
}

Indexed<SegmentId, std::int32_t> pipeline_ranks_of_segments(const Program& program) {
  constexpr std::int32_t kNowhere = -1;
  const bool alike = unlike_axis(program.mesh) == kNoAxis;
  Indexed<SegmentId, std::int32_t> out(program.segments.size(), alike ? 0 : kNowhere);
  if (alike) return out;
  std::map<std::int32_t, std::int32_t> of_stage;
  for (const RankClass& list : program.body) {
    const std::int32_t here = pipeline_rank_of(list.ranks, program.mesh);
    const auto called = [&](SegmentId id) {
      out[id] = here;
      of_stage[program.segments[id].stage] = here;
    };
    for (const Call& call : list.calls) {
      called(call.segment);
      for (const auto& [at, inner] : call.inside) called(inner);
    }
  }
  for (const SegmentId id : program.segments.keys())
    if (out[id] == kNowhere) out[id] = of_stage[program.segments[id].stage];
  return out;
}

std::size_t list_at(const Program& program, const Coordinate& at) {
  const AxisId stages = stage_axis(program.mesh);
  if (unlike_axis(program.mesh) == kNoAxis) return stages == kNoAxis ? 0 : position(at[stages]);
  std::size_t list = 0;
  while (list < program.body.size() && !is_in(program.body[list].ranks, program.mesh, at)) ++list;
  check(list < program.body.size(), "every rank has a list");
  return list;
}

std::size_t list_of(const Program& program, std::int64_t rank) {
  return list_at(program, coordinate_of(program, rank));
}

std::int64_t place_in_group(const Program& program, const Axes& axes, std::int64_t rank) {
  return place_in_group(program.mesh, axes, coordinate_of(program, rank));
}

std::optional<Coordinate> peer_at(const Program& program, const Transfer& transfer,
                                  const Coordinate& at) {
  Coordinate peer = at;
  const std::int32_t size = program.mesh.size(transfer.axis);
  peer[transfer.axis] = ((at[transfer.axis] + transfer.offset) % size + size) % size;
  if (transfer.pairs.empty()) return peer;
  const std::int32_t replica = replica_of(program.mesh, at);
  const auto pair = std::find_if(transfer.pairs.begin(), transfer.pairs.end(),
                                 [&](const auto& one) { return one.first == replica; });
  if (pair == transfer.pairs.end()) return std::nullopt;
  if (pair->second >= num_replicas(program.mesh, peer[transfer.axis])) return std::nullopt;
  move_to_replica(program.mesh, pair->second, peer);
  return peer;
}

Transfer reversed(const Transfer& transfer) {
  Transfer out{transfer.axis, -transfer.offset, {}};
  for (const auto& [own, peer] : transfer.pairs) out.pairs.emplace_back(peer, own);
  std::sort(out.pairs.begin(), out.pairs.end());
  return out;
}

std::vector<Coordinate> members_at(const Program& program, const Group& group,
                                   const Coordinate& at) {
  const AxisId stages = stage_axis(program.mesh);
  const auto listed = [&](const Coordinate& one) {
    return group.members.empty() || std::find(group.members.begin(), group.members.end(),
                                              one[stages]) != group.members.end();
  };
  if (!listed(at)) return {};
  std::vector<Coordinate> members = group_at(program.mesh, group.axes, at);
  std::erase_if(members, [&](const Coordinate& one) { return !listed(one); });
  return members;
}

}  // namespace trainyard
