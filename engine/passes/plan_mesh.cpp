#include "engine/passes/plan_mesh.h"

#include <algorithm>
#include <string>

#include "engine/passes/sharding.h"

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

}  // namespace

DeviceMesh mesh_of(const ParallelConfig& parallel) {
  DeviceMesh mesh;
  const auto add = [&](const char* name, std::int32_t size, bool stages) {
    if (size > 1) mesh.axes.push_back({name, size, stages});
  };
  add("pp", parallel.pipeline, true);
  add("dp", parallel.data, false);
  add("cp", parallel.context, false);
  if (parallel.tensor_axes.empty()) {
    add("tp", parallel.tensor, false);
    return mesh;
  }
  Axes tensor;
  for (std::size_t i = 0; i < parallel.tensor_axes.size(); ++i) {
    if (parallel.tensor_axes[i] == 1) continue;
    tensor.push_back(static_cast<AxisId>(mesh.num_axes()));
    add(("tp" + std::to_string(i)).c_str(), parallel.tensor_axes[i], false);
  }
  if (!tensor.empty()) mesh.names.emplace_back("tp", tensor);
  return mesh;
}

void lay_out(Program& program, const ParallelConfig& parallel) {
  program.mesh = mesh_of(parallel);
  for (const char* family : {"tp", "dp"})  // kTensorGroup, kDataGroup
    program.groups.push_back({family, find_axes(program.mesh, family).value_or(Axes{}), {}});
  if (const AxisId stages = stage_axis(program.mesh); stages != kNoAxis)
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
  for (const AxisId axis : name.empty() ? axes : Axes{})
    name += (name.empty() ? "" : ".") + program.mesh.axis_name(axis);
  return program.groups.add({name, axes, {}});
}

TransferId transfer_by(Program& program, std::int32_t offset) {
  const Transfer wanted{stage_axis(program.mesh), offset};
  auto& transfers = program.transfers;
  const auto known = std::find(transfers.begin(), transfers.end(), wanted);
  return known != transfers.end() ? TransferId(known - transfers.begin()) : transfers.add(wanted);
}

DeviceMesh graph_mesh_of(const ParallelConfig& parallel) {
  ParallelConfig few = parallel;
  few.pipeline = std::min<int>(few.pipeline, kLateRanks);
  few.data = std::min<int>(few.data, kLateRanks);
  return mesh_of(few);
}

ScatterGather scatter_gather_of(const ParallelConfig& parallel) {
  if (!parallel.scatter_gather) return {};
  const DeviceMesh mesh = graph_mesh_of(parallel);
  const Axes axes = find_axes(mesh, "tp").value_or(Axes{});
  return {axes, group_size(mesh, axes)};
}

Placement make_placement(const DeviceMesh& mesh, std::string_view letters) {
  // Missing letters stand just left of T (of the end, where T is missing too).
  std::string order(letters);
  for (const char letter : {'D', 'P', 'C', 'E', 'T'}) {
    if (order.find(letter) != std::string::npos) continue;
    const std::size_t t = order.find('T');
    order.insert(t == std::string::npos ? order.size() : t, 1, letter);
  }
  Placement placement;
  placement.stride.resize(static_cast<std::size_t>(mesh.num_axes()), 0);
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

}  // namespace trainyard
