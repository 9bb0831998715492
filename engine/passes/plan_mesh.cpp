#include "engine/passes/plan_mesh.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "engine/base/error.h"
#include "engine/passes/sharding.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/replica_axes.h"

namespace trainyard {

namespace {

Axes axes_of_letter(const DeviceMesh& mesh, char letter) {
  const std::string_view family = letter == 'P'   ? "pp"
                                  : letter == 'D' ? "dp"
                                  : letter == 'C' ? "cp"
                                  : letter == 'E' ? "ep"
                                                  : "tp";
  return find_axes(mesh, family).value_or(Axes{});
}

std::string joined_names(const DeviceMesh& mesh, const Axes& axes) {
  std::string name;
  for (const AxisId axis : axes) name += (name.empty() ? "" : ".") + mesh.axis_name(axis);
  return name;
}

}  // namespace

DeviceMesh mesh_of(const ParallelConfig& parallel) {
  DeviceMesh mesh;
  const auto add = [&](const char* name, std::int32_t size, bool stages) {
    // Axes with a size for each pipeline rank stand behind one that tells these apart.
    if (size > 1 || (stages && !parallel.replicas.empty()))
      mesh.axes.push_back({name, size, stages});
  };
  add("pp", parallel.pipeline, true);
  const auto data = mesh.num_axes();
  const int neighbours = parallel.resharded_replicas();
  std::vector<int> data_sizes = {parallel.zero.replicate,
                                 parallel.data / parallel.zero.replicate / neighbours, neighbours};
  // With replicas of each pipeline rank, the groups and the neighbours are the same at all.
  AxisId unlike = parallel.zero.replicate > 1 ? AxisId(data + 1) : data;
  std::erase(data_sizes, 1);
  if (data_sizes.size() > 1) {
    Axes axes;
    for (std::size_t i = 0; i < data_sizes.size(); ++i) {
      axes.push_back(static_cast<AxisId>(data + static_cast<AxisId>(i)));
      add(("dp" + std::to_string(i)).c_str(), data_sizes[i], false);
    }
    mesh.names.emplace_back("dp", axes);
  } else {
    add("dp", parallel.data, false);
    unlike = data;
  }
  for (const int replicas : parallel.replicas)
    mesh.axes[unlike].sizes.push_back(replicas / parallel.zero.replicate / neighbours);
  add("cp", parallel.context.degree, false);
  const std::vector<int> sizes = parallel.sizes_of_tensor_axes();
  if (sizes.empty()) {
    add("tp", parallel.tensor, false);
    return mesh;
  }
  Axes tensor;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    tensor.push_back(mesh.num_axes());
    add(("tp" + std::to_string(i)).c_str(), sizes[i], false);
  }
  if (!tensor.empty()) mesh.names.emplace_back("tp", tensor);
  return mesh;
}

void lay_out(Program& program, const ParallelConfig& parallel) {
  program.mesh = mesh_of(parallel);
  program.groups.push_back({"tp", find_axes(program.mesh, "tp").value_or(Axes{}), {}});
  const Axes replicas = data_axes(program.mesh), gradients = gradient_axes(program.mesh);
  program.groups.push_back(
      {gradients == replicas ? "dp" : joined_names(program.mesh, gradients), gradients, {}});
  const bool alike = unlike_axis(program.mesh) == kNoAxis;
  if (const AxisId stages = stage_axis(program.mesh); stages != kNoAxis && alike)
    program.transfers = {{stages, 1}, {stages, -1}};  // kToNext, kToPrevious
}

GroupId group_over(Program& program, const Axes& axes) {
  const auto& groups = program.groups;
  const auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return group.axes == axes && group.members.empty();
  });
  if (known != groups.end()) return GroupId(known - groups.begin());
  std::string name;
  for (const auto& [list, of] : program.mesh.names) {
    if (of == axes) name = list;
  }
  if (name.empty()) name = joined_names(program.mesh, axes);
  return program.groups.add({name, axes, {}});
}

TransferId transfer_by(Program& program, std::int32_t offset, const ReplicaPairs& pairs) {
  const Transfer wanted{stage_axis(program.mesh), offset, pairs};
  auto& transfers = program.transfers;
  const auto known = std::find(transfers.begin(), transfers.end(), wanted);
  return known != transfers.end() ? TransferId(known - transfers.begin()) : transfers.add(wanted);
}

ParallelConfig with_few_replicas(ParallelConfig parallel) {
  const int all_neighbours = parallel.resharded_replicas();
  const int neighbours = std::min<int>(all_neighbours, kLateRanks);
  const int in_group = parallel.data / parallel.zero.replicate / all_neighbours;
  parallel.zero.replicate = std::min<int>(parallel.zero.replicate, kLateRanks);
  parallel.data = std::min<int>(in_group, kLateRanks) * neighbours * parallel.zero.replicate;
  if (parallel.zero.reshards_to_some())
    parallel.zero.reshard_after_forward = neighbours * parallel.context.degree;
  return parallel;
}

DeviceMesh graph_mesh_of(const ParallelConfig& parallel) {
  ParallelConfig few = with_few_replicas(parallel);
  few.pipeline = std::min<int>(few.pipeline, kLateRanks);
  DeviceMesh mesh = mesh_of(few);
  for (MeshAxis& axis : mesh.axes) axis.sizes.clear();
  return mesh;
}

Axes data_axes(const DeviceMesh& mesh) { return find_axes(mesh, "dp").value_or(Axes{}); }

GroupId shard_group(Program& program, const ParallelConfig& parallel) {
  Axes axes = program.groups[kDataGroup].axes;
  if (parallel.zero.replicate == 1 || axes.size() < 2) return kDataGroup;
  axes.erase(axes.begin());
  return group_over(program, axes);
}

GroupId replicate_group(Program& program, const ParallelConfig& parallel) {
  const Axes& axes = program.groups[kDataGroup].axes;
  if (parallel.zero.replicate == 1 || axes.size() < 2) return kNoIndex;
  return group_over(program, {axes.front()});
}

GroupId reshard_group(Program& program, const ParallelConfig& parallel) {
  if (!parallel.zero.reshards_to_some()) return kNoIndex;
  Axes axes = context_axes(program.mesh);
  if (parallel.resharded_replicas() > 1) axes.insert(axes.begin(), data_axes(program.mesh).back());
  return group_over(program, axes);
}

Axes context_axes(const DeviceMesh& mesh) { return find_axes(mesh, "cp").value_or(Axes{}); }

Axes gradient_axes(const DeviceMesh& mesh) {
  Axes axes = data_axes(mesh);
  const Axes context = context_axes(mesh);
  axes.insert(axes.end(), context.begin(), context.end());
  return axes;
}

ScatterGather scatter_gather_of(const ParallelConfig& parallel) {
  if (!parallel.scatter_gather) return {};
  const DeviceMesh mesh = graph_mesh_of(parallel);
  const Axes axes = find_axes(mesh, "tp").value_or(Axes{});
  // Unlike replicas send each other rows.
  return {axes, group_size(mesh, axes), !parallel.replicas.empty()};
}

std::vector<std::int64_t> place_replicas(const DeviceMesh& mesh, std::string_view placement) {
  const AxisId stages = stage_axis(mesh);
  std::int32_t rounds = 0;
  for (std::int32_t p = 0; p < num_pipeline_ranks(mesh); ++p)
    rounds = std::gcd(rounds, num_replicas(mesh, p));
  if (placement == "stages") rounds = 1;
  std::vector<std::int64_t> in_order;  // ranks of the mesh, in the order of their numbers
  const std::int64_t ranks = mesh.num_ranks();
  for (std::int32_t round = 0; round < rounds; ++round) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Coordinate at = coordinate_of(mesh, rank);
      const std::int32_t each = num_replicas(mesh, at[stages]) / rounds;
      if (replica_of(mesh, at) / each == round) in_order.push_back(rank);
    }
  }
  std::vector<std::int64_t> out(ranks);
  for (std::size_t number = 0; number < in_order.size(); ++number)
    out[in_order[number]] = static_cast<std::int64_t>(number);
  return out;
}

void place(Program& program, const ParallelConfig& parallel) {
  program.placement = {};
  if (unlike_axis(program.mesh) == kNoAxis) {
    program.placement = make_placement(program.mesh, parallel.placement);
    return;
  }
  const auto problem = place_ranks(program, place_replicas(program.mesh, parallel.placement));
  check(!problem, "a placement of every rank");
}

Placement make_placement(const DeviceMesh& mesh, std::string_view letters) {
  // Missing letters stand just left of T (of the end, where T is missing too).
  std::string order(letters == "stages" ? "PDT" : letters == "flat" ? "DPT" : letters);
  for (const char letter : {'D', 'P', 'C', 'E', 'T'}) {
    if (order.find(letter) != std::string::npos) continue;
    const std::size_t t = order.find('T');
    order.insert(t == std::string::npos ? order.size() : t, 1, letter);
  }
  Placement placement;
  placement.stride.resize(mesh.num_axes(), 0);
  std::int64_t stride = 1;
  for (auto letter = order.rbegin(); letter != order.rend(); ++letter) {
    const Axes axes = axes_of_letter(mesh, *letter);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      placement.stride[*axis] = stride;
      stride *= mesh.size(*axis);
    }
  }
  return placement;
}

std::vector<std::int64_t> devices_of_tensor_group(const ParallelConfig& parallel) {
  const DeviceMesh mesh = mesh_of(parallel);
  std::int64_t stride = 1;
  if (const auto axes = find_axes(mesh, "tp"); axes && parallel.replicas.empty())
    stride = make_placement(mesh, parallel.placement).stride[axes->back()];
  std::vector<std::int64_t> devices;
  for (int rank = 0; rank < parallel.tensor; ++rank) devices.push_back(rank * stride);
  return devices;
}

}  // namespace trainyard
