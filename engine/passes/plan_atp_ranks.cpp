#include "engine/passes/plan_atp_ranks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/nearest_that_do.h"
#include "engine/base/user_text.h"
#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

/// A number of the model that a mesh of atp does not divide.
struct Undivided {
  std::string key;  // "hidden"
  std::int64_t number = 0;
  int axis = 0;  // of the mesh
};

/// Between layers features are split over the second axis; over the first one the MLP's inner
/// features are, and sequences, where they are split. What both axes split are multiples of
/// parallel.tensor (check_tensor()): heads, and widths of them, CLIP's image_hidden too.
std::optional<Undivided> undivided_by(int d1, int d2, const Plan& plan) {
  const ModelConfig& model = plan.model;
  std::vector<Undivided> numbers = {{"hidden", model.hidden, 1}, {"ffn", model.ffn, 0}};
  if (plan.parallel.sequence_parallel) {
    numbers.push_back({"seq_len", model.seq_len, 0});
    numbers.push_back({"decoder_seq_len", model.decoder_seq_len, 0});
  }
  const auto wrong = std::find_if(numbers.begin(), numbers.end(), [&](const Undivided& one) {
    return one.number % (one.axis == 0 ? d1 : d2) != 0;
  });
  return wrong == numbers.end() ? std::nullopt : std::optional(*wrong);
}

/// "[4, 2] and [8, 1] do": meshes of as many ranks that divide the model.
std::string meshes_that_divide(const Plan& plan) {
  const int ranks = plan.parallel.tensor;
  std::vector<std::string> found;
  for (int d1 = ranks; d1 >= 1; --d1) {
    if (ranks % d1 == 0 && !undivided_by(d1, ranks / d1, plan))
      found.push_back(mesh_text({d1, ranks / d1}));
  }
  if (found.empty()) return "";
  return join_words(found) + (found.size() == 1 ? " does" : " do");
}

AtpLayers atp_layers(const ModelConfig& model) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto heads = [&](std::int64_t count) {
    return static_cast<double>(count * model.head_dim) / hidden;
  };
  const bool gated =
      model.activation == Activation::kSwiglu || model.activation == Activation::kGeglu;
  const double mlp = static_cast<double>(model.ffn) / hidden;
  return {heads(model.heads + 2 * model.kv_heads), (gated ? 2 : 1) * mlp, heads(model.heads), mlp};
}

}  // namespace

MethodProblem arrange_atp(Plan& plan) {
  const ParallelConfig& parallel = plan.parallel;
  if (!parallel.tensor_axes.empty()) {
    std::string remedy = std::to_string(parallel.tensor);
    if (parallel.tensor_axes.size() == 2)
      remedy += " and tensor_method: {name: atp, mesh: " + mesh_text(parallel.tensor_axes) + "}";
    return Infeasible{"method atp makes the axes; write " + remedy, "parallel.tensor"};
  }
  if (parallel.tensor_mesh.empty()) return std::nullopt;
  const std::int64_t ranks = std::int64_t{parallel.tensor_mesh[0]} * parallel.tensor_mesh[1];
  if (ranks == parallel.tensor) return std::nullopt;
  return Infeasible{"mesh " + mesh_text(parallel.tensor_mesh) + " has " + std::to_string(ranks) +
                        " ranks, and parallel.tensor says " + std::to_string(parallel.tensor) +
                        "; " + mesh_text(even_mesh(parallel.tensor)) + " has as many",
                    kTensorMeshKey};
}

MethodProblem check_atp(const Plan& plan) {
  const std::vector<int>& mesh = plan.parallel.tensor_mesh;
  if (!plan.sharding.empty()) {
    if (!mesh.empty()) return std::nullopt;
    return Infeasible{
        "names axes of a mesh that is yet to be chosen; write tensor_method: {name: atp, mesh: [" +
            std::to_string(plan.parallel.tensor) + ", 1]}, or another one",
        "sharding"};
  }
  if (mesh.empty()) return std::nullopt;
  const auto wrong = undivided_by(mesh[0], mesh[1], plan);
  if (!wrong) return std::nullopt;
  return Infeasible{
      with_remedy("the " + std::to_string(mesh[wrong->axis]) + " ranks of the " +
                      (wrong->axis == 0 ? "first" : "second") + " axis of mesh " + mesh_text(mesh) +
                      " do not divide model." + wrong->key + " " + std::to_string(wrong->number),
                  meshes_that_divide(plan)),
      kTensorMeshKey};
}

std::variant<ChosenMesh, Infeasible> choose_atp_mesh(const Plan& plan, const Cluster& cluster) {
  const ParallelConfig& parallel = plan.parallel;
  const bool measured = !parallel.measured_meshes.empty();
  CommunicationMatrix matrix;
  if (!measured) {
    auto made = communication_matrix(cluster);
    if (const auto* reason = std::get_if<Infeasible>(&made)) {
      return Infeasible{"no mesh is chosen: " + reason->reason + "; write {name: atp, mesh: [" +
                            std::to_string(parallel.tensor) + ", 1]}, or another mesh",
                        "parallel.tensor_method"};
    }
    matrix = std::get<CommunicationMatrix>(std::move(made));
  }
  auto meshes = atp_meshes(matrix, devices_of_tensor_group(parallel), parallel.measured_meshes,
                           AtpEquations::kPaper, atp_layers(plan.model));
  if (meshes.empty()) {
    return Infeasible{"says nothing of a mesh of " + std::to_string(parallel.tensor) + " ranks",
                      "parallel.tensor_method.measured"};
  }
  const auto is_left_out = [&](const AtpMesh& mesh) {
    return undivided_by(mesh.d1, mesh.d2, plan).has_value();
  };
  if (std::all_of(meshes.begin(), meshes.end(), is_left_out)) {
    const auto wrong = *undivided_by(meshes.back().d1, meshes.back().d2, plan);
    return Infeasible{
        with_remedy("no mesh of " + std::to_string(parallel.tensor) + " ranks" +
                        (measured ? " that is named" : "") + " divides the model, " +
                        mesh_text({meshes.back().d1, meshes.back().d2}) + " not model." +
                        wrong.key + " " + std::to_string(wrong.number),
                    meshes_that_divide(plan)),
        measured ? "parallel.tensor_method.measured" : "parallel.tensor"};
  }
  const std::size_t left_out = std::erase_if(meshes, is_left_out);
  const AtpMesh& best = best_of(meshes);
  return ChosenMesh{{best.d1, best.d2},
                    "least all-reduce time of " + std::to_string(std::ssize(meshes)) + " meshes" +
                        (left_out > 0 ? " that divide the model" : "") + ", by " +
                        (measured ? "measured bandwidths" : "the cluster's links")};
}

}  // namespace trainyard
