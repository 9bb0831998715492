#include "engine/program/mesh_form.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/sharding/replica_axes.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

/// The strides of the axes, least first, are the products of the sizes of those before; a table has
/// every rank (place_ranks() has looked).
bool numbers_ranks(const DeviceMesh& mesh, const Placement& placement) {
  if (unlike_axis(mesh) != kNoAxis) return std::ssize(placement.ranks) == mesh.num_ranks();
  if (std::ssize(placement.stride) != mesh.num_axes()) return false;
  Axes axes;
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) axes.push_back(axis);
  const auto stride = [&](AxisId axis) { return placement.stride[axis]; };
  std::sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) { return stride(a) < stride(b); });
  std::int64_t next = 1;
  for (const AxisId axis : axes) {
    if (mesh.size(axis) == 1) continue;
    if (stride(axis) != next) return false;
    next *= mesh.size(axis);
  }
  return true;
}

Problem check_group(const Program& program, const Group& group) {
  AxisSet seen = 0;
  for (const AxisId axis : group.axes) {
    if (axis < 0 || axis >= program.mesh.num_axes() || has(seen, axis))
      return "group " + group.name + ": bad axes";
    seen = static_cast<AxisSet>(seen | bit(axis));
  }
  const AxisId stages = stage_axis(program.mesh);
  const bool along_stages = stages != kNoAxis && has(seen, stages);
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const bool ascending = i == 0 || group.members[i] > group.members[i - 1];
    if (!along_stages || !ascending || group.members[i] < 0 ||
        group.members[i] >= num_pipeline_ranks(program.mesh))
      return "group " + group.name + ": bad members";
  }
  const AxisId unlike = unlike_axis(program.mesh);
  if (along_stages && unlike != kNoAxis && (!has(seen, unlike) || group.axes.front() != stages)) {
    return "group " + group.name + ": joins pipeline ranks of unlike numbers of replicas without " +
           program.mesh.axis_name(unlike) + " behind " + program.mesh.axis_name(stages);
  }
  return std::nullopt;
}

/// Every replica of every pipeline rank is in one class; classes ascend by pipeline rank.
Problem check_unlike_classes(const Program& program) {
  const DeviceMesh& mesh = program.mesh;
  const AxisId stages = stage_axis(mesh);
  std::vector<std::vector<bool>> seen;
  for (std::int32_t p = 0; p < num_pipeline_ranks(mesh); ++p)
    seen.emplace_back(num_replicas(mesh, p), false);
  std::int32_t before = 0;
  for (const RankClass& list : program.body) {
    const auto problem = [&](const char* text) {
      return class_name(mesh, list.ranks) + ": " + text;
    };
    if (std::ssize(list.ranks.at) != mesh.num_axes()) return problem("has other axes");
    for (const AxisId axis : mesh.axis_ids()) {
      if ((list.ranks.at[axis] >= 0) != (axis == stages)) return problem("is not of some replicas");
    }
    const std::int32_t p = list.ranks.at[stages];
    if (p < before || p >= std::ssize(seen)) return problem("stands behind later pipeline ranks");
    before = p;
    if (list.ranks.replicas.empty()) return problem("is of no replica");
    for (const std::int32_t replica : list.ranks.replicas) {
      auto& of_rank = seen[p];
      if (replica < 0 || replica >= std::ssize(of_rank) || of_rank[replica])
        return problem("has a replica that is none, or in another class");
      of_rank[replica] = true;
    }
    if (!std::is_sorted(list.ranks.replicas.begin(), list.ranks.replicas.end()))
      return problem("has replicas that do not ascend");
  }
  for (const auto& of_rank : seen) {
    if (std::find(of_rank.begin(), of_rank.end(), false) != of_rank.end())
      return "a replica is in no class";
  }
  return std::nullopt;
}

Problem check_classes(const Program& program) {
  if (unlike_axis(program.mesh) != kNoAxis) return check_unlike_classes(program);
  const std::int32_t ranks = num_pipeline_ranks(program.mesh);
  if (std::ssize(program.body) != ranks) {
    return std::to_string(program.body.size()) + " classes for " + std::to_string(ranks) +
           " pipeline ranks";
  }
  for (std::int32_t i = 0; i < ranks; ++i) {
    const RankSet expected = ranks_at(program.mesh, i);
    if (program.body.begin()[i].ranks != expected)
      return "class " + std::to_string(i) + " is not '" + class_name(program.mesh, expected) + "'";
  }
  return std::nullopt;
}

/// Each replica sends to at most one other, and at most one sends to it.
bool pairs_replicas(const Transfer& transfer) {
  std::vector<std::int32_t> peers;
  for (std::size_t i = 0; i < transfer.pairs.size(); ++i) {
    if (i > 0 && transfer.pairs[i].first <= transfer.pairs[i - 1].first) return false;
    peers.push_back(transfer.pairs[i].second);
  }
  std::sort(peers.begin(), peers.end());
  return std::adjacent_find(peers.begin(), peers.end()) == peers.end();
}

}  // namespace

bool tells_members_apart(const Program& program, GroupId id) {
  return program.groups.has(id) && program.groups[id].members.empty();
}

std::optional<std::string> find_malformed_mesh(const Program& program) {
  if (const auto problem = mesh_problem(program.mesh)) return "the mesh: " + *problem;
  if (!numbers_ranks(program.mesh, program.placement)) {
    return "the placement does not give every rank its own number";
  }
  if (auto problem = check_classes(program)) return problem;
  for (const TransferId t : program.transfers.keys()) {
    const AxisId axis = program.transfers[t].axis;
    if (axis == kNoAxis || axis != stage_axis(program.mesh))
      return "transfer " + std::to_string(t.number()) +
             " leaves the pipeline; this version has none that do";
    const bool unlike = unlike_axis(program.mesh) != kNoAxis;
    if (unlike == program.transfers[t].pairs.empty() || !pairs_replicas(program.transfers[t]))
      return "transfer " + std::to_string(t.number()) + " does not pair replicas one by one";
  }
  for (const Group& group : program.groups) {
    if (auto problem = check_group(program, group)) return problem;
  }
  if (program.owners != kNoIndex && !tells_members_apart(program, program.owners))
    return "the owners are no whole group";
  return std::nullopt;
}

}  // namespace trainyard
