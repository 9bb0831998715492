// Meshes of a form of their own, for which some methods of tensor parallelism are made
// (tensor_methods.h), and what the planners of these are told.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/passes/method_mesh.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct MeshMethodPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;        // late
  Axes tensor;      // one for each number of the mesh
  friend bool operator==(const MeshMethodPlan&, const MeshMethodPlan&) = default;
};

struct MeshForm {
  std::string_view words;
  /// The mesh that so many ranks get that no study arranges; nullopt: they are none.
  std::optional<std::vector<int>> (*mesh_of)(int ranks);
  bool (*takes)(const std::vector<int>& mesh);
  /// Over how many ranks the rows of a microbatch, and the features of an activation, are split.
  int (*row_ranks)(const std::vector<int>& mesh);
  int (*feature_ranks)(const std::vector<int>& mesh);
};

/// Gives a plan, whose method has a form, axes of that.
MethodProblem arrange_mesh_form(Plan& plan);
/// Whether these divide features and samples.
MethodProblem check_mesh_form(const Plan& plan);

extern const MeshForm kSquareMeshes;   // q x q
extern const MeshForm kLayeredMeshes;  // d x q x q
extern const MeshForm kCubeMeshes;     // p x p x p

}  // namespace trainyard
