// How a method of tensor parallelism has its ranks lie (tensor_methods.h): what its row answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

inline constexpr const char* kTensorMeshKey = "parallel.tensor_method.mesh";

/// What is wrong with a plan of the method, with the key to blame; none: nothing.
using MethodProblem = std::optional<Infeasible>;

/// A mesh that the links of a cluster make best.
struct ChosenMesh {
  std::vector<int> mesh;
  std::string reason;  // "levels of the cluster's links"
};

std::string mesh_text(const std::vector<int>& mesh);  // "[2, 4]"

/// A mesh of two axes as equal as they can be, the second no shorter: [2, 4] of 8.
std::vector<int> even_mesh(int ranks);

}  // namespace trainyard
