#include "engine/passes/plan_map_ranks.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/cluster/pair_mesh.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_mesh.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

/// Names of `text` that begin with "dp": the axes of replicas.
std::string replica_axis(const std::string& text) {
  for (std::size_t at = text.find("dp"); at != std::string::npos; at = text.find("dp", at + 1)) {
    if (at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0) continue;
    const std::size_t end = text.find_first_not_of("0123456789", at + 2);
    return text.substr(at, end == std::string::npos ? end : end - at);
  }
  return "";
}

MethodProblem replica_problem(const std::string& op, const std::string& text,
                              const std::string& why) {
  const std::string axis = replica_axis(text);
  if (axis.empty()) return std::nullopt;
  return Infeasible{in_quotes(op) + " names " + axis + ", " + why +
                        "; name the mesh's own axes, tp or tp0, tp1 and so on",
                    kMapOpsKey};
}

std::vector<int> without_ones(std::vector<int> mesh) {
  std::erase(mesh, 1);
  if (mesh.empty()) mesh.push_back(1);
  return mesh;
}

Infeasible no_mesh(const Plan& plan, const std::string& why) {
  return {why + "; write {name: map, mesh: [" + std::to_string(plan.parallel.tensor) +
              "]}, or another mesh",
          "parallel.tensor_method"};
}

}  // namespace

MethodProblem arrange_map(Plan& plan) {
  ParallelConfig& parallel = plan.parallel;
  if (!parallel.tensor_axes.empty()) {
    return Infeasible{
        "method map makes the axes; write " + std::to_string(parallel.tensor) +
            " and tensor_method: {name: map, mesh: " + mesh_text(parallel.tensor_axes) + "}",
        "parallel.tensor"};
  }
  if (parallel.tensor_mesh.empty()) return std::nullopt;
  std::int64_t ranks = 1;
  for (const int size : parallel.tensor_mesh)
    ranks = std::min<std::int64_t>(ranks * size, kMaxRanks + 1);
  if (ranks != parallel.tensor) {
    return Infeasible{"the ranks of mesh " + mesh_text(parallel.tensor_mesh) + " are not the " +
                          std::to_string(parallel.tensor) + " of parallel.tensor; " +
                          mesh_text(even_mesh(parallel.tensor)) + " has as many",
                      kTensorMeshKey};
  }
  parallel.tensor_mesh = without_ones(parallel.tensor_mesh);
  return std::nullopt;
}

MethodProblem check_map(const Plan& plan) {
  const bool several = plan.parallel.gradient_ranks() > 1 || !plan.partition.replicas.empty();
  for (const GivenSharding& given : plan.parallel.tensor_ops) {
    for (const auto& [index, axes] : given.strategy) {
      if (auto problem =
              replica_problem(given.modules, axes, "over which the batch is split by itself"))
        return problem;
    }
    if (several) continue;
    for (const auto& [name, spec] : given.specs) {
      if (auto problem = replica_problem(given.modules, spec, "and there is one replica"))
        return problem;
    }
  }
  return std::nullopt;
}

std::variant<ChosenMesh, Infeasible> choose_map_mesh(const Plan& plan, const Cluster& cluster) {
  const ParallelConfig& parallel = plan.parallel;
  constexpr int kMostPaired = 1024;
  if (parallel.tensor > kMostPaired)
    return no_mesh(plan,
                   "no mesh is chosen of more than " + std::to_string(kMostPaired) + " ranks");
  const auto as_square = [](const std::string& why) { return "as square as it can be: " + why; };
  const auto pairs = pair_costs(cluster, devices_of_tensor_group(parallel));
  if (const auto* reason = std::get_if<Infeasible>(&pairs))
    return ChosenMesh{without_ones(even_mesh(parallel.tensor)), as_square(reason->reason)};
  const PairMesh mesh = mesh_of_ranks(std::get<PairCosts>(pairs));
  std::vector<int> shape = without_ones(mesh.shape);
  if (shape.size() > kMaxTensorAxes) {
    return no_mesh(plan, "links have " + std::to_string(std::ssize(shape)) +
                             " levels, and a mesh at most " + std::to_string(kMaxTensorAxes) +
                             " axes");
  }
  return ChosenMesh{std::move(shape), !mesh.reason.empty() ? as_square(mesh.reason)
                                      : cluster.pairs.empty()
                                          ? "levels of the cluster's links"
                                          : "levels of the pairs that were measured"};
}

}  // namespace trainyard
