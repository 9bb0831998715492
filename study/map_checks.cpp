// Method map of tensor parallelism: what goes with it, and the mesh of a study that names none.
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/cluster/pair_mesh.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

std::string mesh_text(const std::vector<int>& mesh) {
  std::string out;
  for (const int ranks : mesh) out += (out.empty() ? "[" : ", ") + text(ranks);
  return out + "]";
}

/// Names of `text` that begin with "dp": the axes of replicas.
std::string replica_axis(const std::string& text) {
  for (std::size_t at = text.find("dp"); at != std::string::npos; at = text.find("dp", at + 1)) {
    if (at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0) continue;
    const std::size_t end = text.find_first_not_of("0123456789", at + 2);
    return text.substr(at, end == std::string::npos ? end : end - at);
  }
  return "";
}

/// Axes of one rank split nothing.
std::vector<int> without_ones(std::vector<int> mesh) {
  std::erase(mesh, 1);
  if (mesh.empty()) mesh.push_back(1);
  return mesh;
}

}  // namespace

void check_map_mesh(Study& study) {
  ParallelConfig& parallel = study.parallel;
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& why) {
    if (wrong) fail_at(study, key, why);
  };
  refuse(!parallel.tensor_axes.empty(), "parallel.tensor",
         "method map makes the axes; write " + text(parallel.tensor) +
             " and tensor_method: {name: map, mesh: " + mesh_text(parallel.tensor_axes) + "}");
  if (!parallel.tensor_mesh.empty()) {
    std::int64_t ranks = 1;
    for (const int size : parallel.tensor_mesh)
      ranks = std::min<std::int64_t>(ranks * size, kMaxRanks + 1);
    refuse(ranks != parallel.tensor, kTensorMeshKey,
           "the ranks of mesh " + mesh_text(parallel.tensor_mesh) + " are not the " +
               text(parallel.tensor) + " of parallel.tensor");
    parallel.tensor_mesh = without_ones(parallel.tensor_mesh);
  }
}

/// The batch is split over the replicas' axes whatever the list says; a result may say so, too,
/// where there are several.
void check_map_ops(const Study& study) {
  const bool several = study.parallel.gradient_ranks() > 1 || !study.partition.replicas.empty();
  const auto refuse = [&](const std::string& op, const std::string& text, const std::string& why) {
    const std::string axis = replica_axis(text);
    if (axis.empty()) return;
    fail_at(study, kMapOpsKey,
            quoted(op) + " names " + axis + ", " + why +
                "; name the mesh's own axes, tp or tp0, tp1 and so on");
  };
  for (const GivenSharding& given : study.parallel.tensor_ops) {
    for (const auto& [index, axes] : given.strategy)
      refuse(given.modules, axes, "over which the batch is split by itself");
    if (several) continue;
    for (const auto& [name, spec] : given.specs)
      refuse(given.modules, spec, "and there is one replica");
  }
}

void choose_map_mesh(Study& study) {
  ParallelConfig& parallel = study.parallel;
  if (!parallel.tensor_mesh.empty()) return;
  constexpr int kMostPaired = 1024;
  if (parallel.tensor > kMostPaired) {
    fail_at(study, "parallel.tensor_method",
            "no mesh is chosen of more than " + text(kMostPaired) +
                " ranks; write {name: map, mesh: [" + text(parallel.tensor) +
                "]}, or another mesh");
  }
  const auto pairs = pair_costs(study.cluster, devices_of_tensor_group(parallel));
  if (const auto* reason = std::get_if<Infeasible>(&pairs)) {
    fail_at(study, "parallel.tensor_method",
            "no mesh is chosen: " + reason->reason + "; write {name: map, mesh: [" +
                text(parallel.tensor) + "]}, or another mesh");
  }
  const PairMesh mesh = mesh_of_ranks(std::get<PairCosts>(pairs));
  std::vector<int> shape = without_ones(mesh.shape);
  if (shape.size() > kMaxTensorAxes) {
    fail_at(study, "parallel.tensor_method",
            "links have " + text(std::ssize(shape)) + " levels, and a mesh at most " +
                text(kMaxTensorAxes) + " axes; write {name: map, mesh: [" + text(parallel.tensor) +
                "]}, or another mesh");
  }
  parallel.tensor_mesh = std::move(shape);
  study.origins[kTensorMeshKey] =
      derived_origin(!mesh.reason.empty()          ? "as square as it can be: " + mesh.reason
                     : study.cluster.pairs.empty() ? "levels of the cluster's links"
                                                   : "levels of the pairs that were measured");
}

}  // namespace trainyard
