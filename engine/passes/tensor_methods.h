// Methods of tensor parallelism (parallel.tensor_method): a row each, which the words and checks of
// studies, compile() and --compare-tensor-methods read. A new one is a planner and a row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/passes/map_peers.h"
#include "engine/passes/mesh_forms.h"
#include "engine/passes/method_mesh.h"
#include "engine/passes/method_ways.h"
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
  kFp8
};

struct NotBeside {
  Beside what = {};
  std::string_view why = {};  // with what to write instead; empty: it is yet to be written
};

/// What of a model all ranks of a method divide, whatever their mesh.
enum class Divides : std::uint8_t {
  kNothing,
  kHeads,
  kWidths  // and the MLP's inner features; the sequence, where that is split
};

/// How many axes a mesh may have that a study says (parallel.tensor_method.mesh); 0: it says none.
struct SaidAxes {
  int least = 0, most = 0;
};

struct TensorMethod {
  std::string_view name = {};
  std::string_view does = {};             // with the families that it has: "splits the layers of"
  std::span<const Family> families = {};  // empty: all of which it finds ops to split
  std::span<const NotBeside> refused = {};
  Divides divides = Divides::kNothing;
  const MeshForm* form = nullptr;  // of the meshes that it is made for; nullptr: any
  /// What its planner is told of tensor groups of several ranks.
  MethodPlan (*plan_of)(const ParallelConfig& parallel) = nullptr;
  /// Keys of parallel.tensor_method that are its own.
  std::span<const std::string_view> keys = {};
  SaidAxes said_axes = {};
  /// What is said of meshes, and of measured ones, where they are no keys of its own.
  std::string_view has_mesh = {};
  std::vector<MethodWay> (*ways)(const TensorMethod& method, const ComparedPlan& of) = nullptr;
  /// Completes what a plan says of how its ranks lie, in front of all other checks; nullptr: as
  /// parallel.tensor says.
  MethodProblem (*arrange)(Plan& plan) = nullptr;
  /// Whether the rest of a plan suits it, behind `refused`; nullptr: it asks nothing more.
  MethodProblem (*check)(const Plan& plan) = nullptr;
  /// The mesh of a plan that names none (parallel.tensor_method.mesh); nullptr: it takes none.
  std::variant<ChosenMesh, Infeasible> (*choose_mesh)(const Plan& plan,
                                                      const Cluster& cluster) = nullptr;
  /// Whether each rank of a tensor group brings samples of its own; nullptr: all have the same.
  bool (*own_samples)(const ParallelConfig& parallel) = nullptr;
  /// Whether ZeRO divides what the ranks of a tensor group have alike among these, too.
  bool divides_alike = false;
  /// What each op splits is chosen by cost (app/choose_splits.h): samples, sequences and features,
  /// whatever is said of sequences.
  bool splits_by_cost = false;
  bool reads_pairs = false;     // choose_mesh reads cluster.pairs
  bool unlike_degrees = false;  // pipeline ranks may have tensor groups of unlike sizes
  /// Its shardings that a method which splits by cost tries, too (map_peers.h); nullptr: none.
  std::vector<MapPeer> (*peers)(const PeerMesh& on) = nullptr;
};

std::span<const TensorMethod> tensor_methods();

bool has_family(const TensorMethod& method, Family family);

/// Whether parallel.tensor_method may have the key under the method.
bool takes_key(const TensorMethod& method, std::string_view key);

/// That of a name that a study can have.
const TensorMethod& tensor_method(std::string_view name);

}  // namespace trainyard
