// Methods of tensor parallelism that are made for meshes of a form of their own: a row each, which
// study checks, compile() and --compare-tensor-methods read. A new one is a planner and a row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/passes/sharding.h"

namespace trainyard {

struct MeshMethodPlan {
  std::string_view method;  // of mesh_methods()
  DeviceMesh mesh;          // late axes have kLateRanks
  Axes data;                // late
  Axes tensor;              // one for each number of the mesh
  friend bool operator==(const MeshMethodPlan&, const MeshMethodPlan&) = default;
};

struct MeshMethod {
  std::string_view name;  // of parallel.tensor_method
  std::string_view form;  // of its meshes, in words
  /// The mesh that so many ranks get that no study arranges; nullopt: they are none.
  std::optional<std::vector<int>> (*mesh_of)(int ranks);
  bool (*takes)(const std::vector<int>& mesh);
  /// Over how many ranks the rows of a microbatch, and the features of an activation, are split.
  int (*row_ranks)(const std::vector<int>& mesh);
  int (*feature_ranks)(const std::vector<int>& mesh);
  std::variant<PlannedGraph, Infeasible> (*plan)(Graph graph, const MeshMethodPlan& plan);
};

std::span<const MeshMethod> mesh_methods();
/// nullptr: another method.
const MeshMethod* mesh_method(std::string_view name);

}  // namespace trainyard
