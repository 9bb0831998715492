#include "engine/passes/mesh_forms.h"

#include <string>
#include <utility>

#include "engine/base/nearest_that_do.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

using Mesh = std::vector<int>;

/// [q, q], q of at least 2.
bool is_square(const Mesh& mesh) { return mesh.size() == 2 && mesh[0] == mesh[1] && mesh[0] > 1; }
std::optional<Mesh> square_of(int ranks) {
  int q = 2;
  while (q * q < ranks) ++q;
  return q * q == ranks ? std::optional(Mesh{q, q}) : std::nullopt;
}

/// [d, q, q], d of 2 to q, as Wang et al. have it.
bool is_layered(const Mesh& mesh) {
  return mesh.size() == 3 && mesh[1] == mesh[2] && mesh[0] > 1 && mesh[0] <= mesh[1];
}
/// The fewest layers: d larger, q smaller gathers less of weights and more of activations.
std::optional<Mesh> layers_of(int ranks) {
  for (int d = 2; d * d * d <= ranks; ++d) {
    if (ranks % d != 0) continue;
    const auto square = square_of(ranks / d);
    if (square && d <= square->front()) return Mesh{d, square->front(), square->front()};
  }
  return std::nullopt;
}

bool is_cube(const Mesh& mesh) {
  return mesh.size() == 3 && mesh[0] == mesh[1] && mesh[1] == mesh[2] && mesh[0] > 1;
}
std::optional<Mesh> cube_of(int ranks) {
  int p = 2;
  while (p * p * p < ranks) ++p;
  return p * p * p == ranks ? std::optional(Mesh{p, p, p}) : std::nullopt;
}

int all_but_last(const Mesh& mesh) {
  int ranks = 1;
  for (std::size_t i = 0; i + 1 < mesh.size(); ++i) ranks *= mesh[i];
  return ranks;
}
int last(const Mesh& mesh) { return mesh.back(); }

/// As parallel.tensor says it: the last axes of a plan's mesh.
std::string axes_text(const Plan& plan, const Mesh& mesh) {
  ParallelConfig parallel = plan.parallel;
  parallel.tensor_axes = mesh;
  const DeviceMesh named = mesh_of(parallel);
  std::string out;
  for (auto axis = named.axes.end() - std::ssize(mesh); axis != named.axes.end(); ++axis)
    out += (out.empty() ? "{" : ", ") + axis->name + ": " + std::to_string(axis->size);
  return out + "}";
}

std::string on_ranks(const Plan& plan) {
  return "method " + plan.parallel.tensor_method + " on " + std::to_string(plan.parallel.tensor) +
         " ranks ";
}

/// What features are divided over: heads, and the widths of activations.
MethodProblem feature_problem(const Plan& plan, int ranks) {
  const ModelConfig& model = plan.model;
  const std::pair<const char*, std::int64_t> numbers[] = {{"hidden", model.hidden},
                                                          {"heads", model.heads},
                                                          {"kv_heads", model.kv_heads},
                                                          {"ffn", model.ffn}};
  for (const auto& [key, number] : numbers) {
    if (number % ranks == 0) continue;
    return Infeasible{on_ranks(plan) + "splits features over " + std::to_string(ranks) +
                          ", which do not divide model." + key + " " + std::to_string(number),
                      "parallel.tensor"};
  }
  return std::nullopt;
}

MethodProblem row_problem(const Plan& plan, int ranks) {
  std::vector<std::int64_t> sizes = plan.training.microbatches;
  if (sizes.empty()) sizes = {plan.training.microbatch};
  for (const std::int64_t size : sizes) {
    if (size % ranks == 0) continue;
    return Infeasible{on_ranks(plan) + "splits the samples of a microbatch over " +
                          std::to_string(ranks) + ", which do not divide " + std::to_string(size) +
                          "; " +
                          nearest_that_do(size, size + ranks,
                                          [&](std::int64_t rows) { return rows % ranks == 0; }),
                      "training.microbatch"};
  }
  return std::nullopt;
}

const MeshForm& form_of(const Plan& plan) {
  return *tensor_method(plan.parallel.tensor_method).form;
}

}  // namespace

MethodProblem arrange_mesh_form(Plan& plan) {
  ParallelConfig& parallel = plan.parallel;
  const MeshForm& form = form_of(plan);
  const std::string made_for =
      "method " + parallel.tensor_method + " is made for meshes of " + std::string(form.words);
  const auto mesh = form.mesh_of(parallel.tensor);
  if (!parallel.tensor_axes.empty()) {
    if (form.takes(parallel.tensor_axes)) return std::nullopt;
    return Infeasible{with_remedy(made_for, mesh ? "write " + axes_text(plan, *mesh) : ""),
                      "parallel.tensor"};
  }
  if (!mesh) {
    const std::string remedy = nearest_that_do(parallel.tensor, kMaxRanks, [&](std::int64_t ranks) {
      return form.mesh_of(static_cast<int>(ranks)).has_value();
    });
    return Infeasible{
        with_remedy(made_for + ", not for " + std::to_string(parallel.tensor) + " ranks", remedy),
        "parallel.tensor"};
  }
  parallel.tensor_axes = *mesh;
  return std::nullopt;
}

MethodProblem check_mesh_form(const Plan& plan) {
  const MeshForm& form = form_of(plan);
  const std::vector<int>& axes = plan.parallel.tensor_axes;
  if (auto problem = feature_problem(plan, form.feature_ranks(axes))) return problem;
  return row_problem(plan, form.row_ranks(axes));
}

const MeshForm kSquareMeshes = {"q x q", square_of, is_square, all_but_last, last};
const MeshForm kLayeredMeshes = {"d x q x q with d of 2 to q", layers_of, is_layered, all_but_last,
                                 last};
const MeshForm kCubeMeshes = {"p x p x p", cube_of, is_cube, all_but_last, last};

}  // namespace trainyard
