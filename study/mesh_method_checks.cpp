// Methods of tensor parallelism that are made for meshes of a form of their own (mesh_methods.h):
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

void make_mesh(Study& study, const MeshMethod& method) {
  ParallelConfig& parallel = study.parallel;
  const std::string made_for =
      "method " + std::string(method.name) + " is made for meshes of " + std::string(method.form);
  if (!parallel.tensor_axes.empty()) {
    if (method.takes(parallel.tensor_axes)) return;
    const auto mesh = method.mesh_of(parallel.tensor);
    fail_at(study, "parallel.tensor",
            with_remedy(made_for, mesh ? "write " + axes_text(*mesh) : ""));
  }
  const auto mesh = method.mesh_of(parallel.tensor);
  if (!mesh) {
    const std::string remedy = nearest_that_do(parallel.tensor, kMaxRanks, [&](std::int64_t ranks) {
      return method.mesh_of(static_cast<int>(ranks)).has_value();
    });
    fail_at(study, "parallel.tensor",
            with_remedy(made_for + ", not for " + text(parallel.tensor) + " ranks", remedy));
  }
  parallel.tensor_axes = *mesh;
}

/// What features are divided over: heads, and the widths of activations.
void check_features(const Study& study, const MeshMethod& method) {
  const ModelConfig& model = study.model;
  const int ranks = method.feature_ranks(study.parallel.tensor_axes);
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

void check_rows(const Study& study, const MeshMethod& method) {
  const int ranks = method.row_ranks(study.parallel.tensor_axes);
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

void check_mesh_method(Study& study, const MeshMethod& method) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.tensor == 1) return;
  make_mesh(study, method);
  const std::string name(method.name);
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& why) {
    if (wrong) fail_at(study, key, why);
  };
  const Family family = study.model.family;
  const Family families[] = {Family::kGpt, Family::kBert, Family::kLlama, Family::kT5,
                             Family::kVit};
  refuse(std::ranges::count(families, family) == 0, "parallel.tensor_method",
         "method " + name + " splits the layers of families gpt, bert, llama, t5 and vit in this " +
             "version, not of " + std::string(to_string(family)) + "; write megatron");
  const std::string beside = "does not go with method " + name + " in this version; ";
  refuse(parallel.sequence_parallel, "parallel.sequence_parallel",
         "method " + name + " splits samples and features, not the sequence; write false");
  refuse(parallel.context.degree > 1, "parallel.context", beside + "write 1");
  refuse(!parallel.tensor_modules.empty(), "parallel.tensor_modules",
         "method " + name + " splits every layer; leave it out, or write megatron");
  refuse(parallel.tensor_overlap != "none", "parallel.tensor_overlap", beside + "write none");
  refuse(!study.sharding.empty(), "sharding", beside + "leave it out, or write megatron");
  refuse(!study.partition.replicas.empty(), "partition.replicas",
         "do not go with method " + name + " in this version; write parallel.data");
  refuse(study.documents.on(), "data.documents", beside + "leave it out");
  refuse(study.training.fp8.on(), "training.precision",
         "fp8 does not go with method " + name + " in this version; write bf16");
  check_features(study, method);
  check_rows(study, method);
}

}  // namespace trainyard
