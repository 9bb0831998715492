// Methods of tensor parallelism (parallel.tensor_method): a row each, which the words and checks of
// studies, compile() and --compare-tensor-methods read. A new one is a planner and a row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/passes/mesh_forms.h"
#include "engine/passes/plan_method.h"
#include "engine/plan/model_config.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// What else a study may ask of how layers are divided.
enum class Beside : std::uint8_t {
  kNamedAxes,  // parallel.tensor: {tp0: 2, tp1: 4}
  kSequenceParallel,
  kContext,
  kModules,
  kOverlap,
  kSharding,
  kReplicas,  // of each pipeline rank
  kDocuments,
  kFp8
};

struct NotBeside {
  Beside what = {};
  std::string_view why = {};  // with what to write instead; empty: it is yet to be written
};

struct TensorMethod {
  std::string_view name;
  std::string_view does;             // with the families that it has: "splits the layers of"
  std::span<const Family> families;  // empty: all of which it finds ops to split
  std::span<const NotBeside> refused;
  /// All its ranks divide the model's heads and vocabulary, whatever their mesh.
  bool divides_heads;
  bool makes_mesh;       // tensor_method.mesh arranges its ranks, or the links of the cluster do
  const MeshForm* form;  // of the meshes that it is made for; nullptr: any
  /// What its planner is told of tensor groups of several ranks.
  MethodPlan (*plan_of)(const ParallelConfig& parallel);
};

std::span<const TensorMethod> tensor_methods();

inline constexpr const char* kTensorMeshKey = "parallel.tensor_method.mesh";

/// That of a name that a study can have.
const TensorMethod& tensor_method(std::string_view name);

}  // namespace trainyard
