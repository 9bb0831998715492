// Methods of tensor parallelism that are made for meshes of a form of their own (mesh_forms.h):
// the mesh of a study that does not arrange its ranks, and what goes with each.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "study/nearest_that_do.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

std::string axes_text(const std::vector<int>& mesh) {
  std::string out;
  for (std::size_t i = 0; i < mesh.size(); ++i)
    out += (i == 0 ? "{tp" : ", tp") + std::to_string(i) + ": " + text(mesh[i]);
  return out + "}";
}

}  // namespace

void make_mesh_of_form(Study& study, const TensorMethod& method) {
  ParallelConfig& parallel = study.parallel;
  const std::string made_for = "method " + std::string(method.name) + " is made for meshes of " +
                               std::string(method.form->words);
  if (!parallel.tensor_axes.empty()) {
    if (method.form->takes(parallel.tensor_axes)) return;
    const auto mesh = method.form->mesh_of(parallel.tensor);
    fail_at(study, "parallel.tensor",
            with_remedy(made_for, mesh ? "write " + axes_text(*mesh) : ""));
  }
  const auto mesh = method.form->mesh_of(parallel.tensor);
  if (!mesh) {
    const std::string remedy = nearest_that_do(parallel.tensor, kMaxRanks, [&](std::int64_t ranks) {
      return method.form->mesh_of(static_cast<int>(ranks)).has_value();
    });
    fail_at(study, "parallel.tensor",
            with_remedy(made_for + ", not for " + text(parallel.tensor) + " ranks", remedy));
  }
  parallel.tensor_axes = *mesh;
}

namespace {

/// What features are divided over: heads, and the widths of activations.
void check_features(const Study& study, const TensorMethod& method) {
  const ModelConfig& model = study.model;
  const int ranks = method.form->feature_ranks(study.parallel.tensor_axes);
  const std::pair<const char*, std::int64_t> numbers[] = {{"hidden", model.hidden},
                                                          {"heads", model.heads},
                                                          {"kv_heads", model.kv_heads},
                                                          {"ffn", model.ffn}};
  for (const auto& [key, number] : numbers) {
    if (number % ranks == 0) continue;
    fail_at(study, "parallel.tensor",
            "method " + std::string(method.name) + " on " + text(study.parallel.tensor) +
                " ranks splits features over " + text(ranks) + ", which do not divide model." +
                key + " " + text(number));
  }
}

void check_rows(const Study& study, const TensorMethod& method) {
  const int ranks = method.form->row_ranks(study.parallel.tensor_axes);
  std::vector<std::int64_t> sizes = study.training.microbatches;
  if (sizes.empty()) sizes = {study.training.microbatch};
  for (const std::int64_t size : sizes) {
    if (size % ranks == 0) continue;
    fail_at(study, "training.microbatch",
            "method " + std::string(method.name) + " on " + text(study.parallel.tensor) +
                " ranks splits the samples of a microbatch over " + text(ranks) +
                ", which do not divide " + text(size) + "; " +
                nearest_that_do(size, size + ranks,
                                [&](std::int64_t rows) { return rows % ranks == 0; }));
  }
}

}  // namespace

void check_mesh_of_form(const Study& study, const TensorMethod& method) {
  check_features(study, method);
  check_rows(study, method);
}

}  // namespace trainyard
