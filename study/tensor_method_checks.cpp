// Methods of tensor parallelism: what their rows say that goes with each, what some ask beside
// that, and which mesh a study of atp gets that names none.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/tensor_methods.h"
#include "engine/planner/atp_mesh.h"
#include "study/nearest_that_do.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

constexpr const char* kMethodKey = "parallel.tensor_method";

std::string text(std::int64_t number) { return std::to_string(number); }
std::string mesh_text(const std::vector<int>& mesh) {
  return "[" + text(mesh[0]) + ", " + text(mesh[1]) + "]";
}

/// A number of the model that a mesh of atp does not divide.
struct Undivided {
  std::string key;  // "hidden"
  std::int64_t number = 0;
  int axis = 0;  // of the mesh
};

/// Between layers features are split over the second axis; over the first one the MLP's inner
/// features are, and sequences, where they are split. What both axes split are multiples of
/// parallel.tensor (check_tensor()): heads, and widths of them, CLIP's image_hidden too.
std::optional<Undivided> undivided_by(int d1, int d2, const Study& study) {
  const ModelConfig& model = study.model;
  std::vector<Undivided> numbers = {{"hidden", model.hidden, 1}, {"ffn", model.ffn, 0}};
  if (study.parallel.sequence_parallel) {
    numbers.push_back({"seq_len", model.seq_len, 0});
    numbers.push_back({"decoder_seq_len", model.decoder_seq_len, 0});
  }
  const auto wrong = std::find_if(numbers.begin(), numbers.end(), [&](const Undivided& one) {
    return one.number % (one.axis == 0 ? d1 : d2) != 0;
  });
  return wrong == numbers.end() ? std::nullopt : std::optional(*wrong);
}

/// "[4, 2] and [8, 1] do": meshes of as many ranks that divide the model.
std::string meshes_that_divide(const Study& study) {
  const int ranks = study.parallel.tensor;
  std::vector<std::string> found;
  for (int d1 = ranks; d1 >= 1; --d1) {
    if (ranks % d1 == 0 && !undivided_by(d1, ranks / d1, study))
      found.push_back(mesh_text({d1, ranks / d1}));
  }
  if (found.empty()) return "";
  return join_words(found) + (found.size() == 1 ? " does" : " do");
}

/// parallel.tensor says how many ranks, tensor_method how they lie.
void check_mesh_ranks(Study& study) {
  ParallelConfig& parallel = study.parallel;
  if (!parallel.tensor_axes.empty()) {
    std::string remedy = text(parallel.tensor);
    if (parallel.tensor_axes.size() == 2)
      remedy += " and tensor_method: {name: atp, mesh: " + mesh_text(parallel.tensor_axes) + "}";
    fail_at(study, "parallel.tensor", "method atp makes the axes; write " + remedy);
  }
  if (parallel.tensor_mesh.empty()) return;
  const std::int64_t ranks = std::int64_t{parallel.tensor_mesh[0]} * parallel.tensor_mesh[1];
  if (ranks == parallel.tensor) return;
  fail_at(study, kTensorMeshKey,
          "mesh " + mesh_text(parallel.tensor_mesh) + " has " + text(ranks) +
              " ranks, and parallel.tensor says " + text(parallel.tensor));
}

void refuse(const Study& study, bool wrong, const std::string& key, const std::string& why) {
  if (wrong) fail_at(study, key, why);
}

void check_families(const Study& study, const TensorMethod& method) {
  const Family family = study.model.family;
  const auto& families = method.families;
  if (families.empty() || std::find(families.begin(), families.end(), family) != families.end())
    return;
  std::vector<std::string> names;
  for (const Family one : families) names.emplace_back(to_string(one));
  const std::string does(method.does);
  fail_at(study, kMethodKey,
          "method " + std::string(method.name) + " " + does + " families " + join_words(names) +
              " in this version, not " + does.substr(does.rfind(' ') + 1) + " " +
              std::string(to_string(family)) + "; write megatron");
}

/// Where a study asks for it, and what to write instead.
struct Asked {
  Beside what = {};
  const char* key;
  bool (*is_asked)(const Study& study);
  const char* remedy;
  const char* not_beside = "does not go";
};
constexpr Asked kAsked[] = {
    {Beside::kSequenceParallel, "parallel.sequence_parallel",
     [](const Study& study) { return study.parallel.sequence_parallel; }, "write false"},
    {Beside::kContext, "parallel.context",
     [](const Study& study) { return study.parallel.context.degree > 1; }, "write 1"},
    {Beside::kModules, "parallel.tensor_modules",
     [](const Study& study) { return !study.parallel.tensor_modules.empty(); },
     "leave it out, or write megatron"},
    {Beside::kOverlap, "parallel.tensor_overlap",
     [](const Study& study) { return study.parallel.tensor_overlap != "none"; }, "write none"},
    {Beside::kSharding, "sharding", [](const Study& study) { return !study.sharding.empty(); },
     "leave it out, or write megatron"},
    {Beside::kReplicas, "partition.replicas",
     [](const Study& study) { return !study.partition.replicas.empty(); }, "write parallel.data",
     "do not go"},
    {Beside::kDocuments, "data.documents", [](const Study& study) { return study.documents.on(); },
     "leave it out"},
    {Beside::kFp8, "training.precision", [](const Study& study) { return study.training.fp8.on(); },
     "write bf16", "fp8 does not go"}};

void check_beside(const Study& study, const TensorMethod& method) {
  const std::string name = "method " + std::string(method.name);
  for (const NotBeside& refused : method.refused) {
    const std::string why = name + " " + std::string(refused.why);
    if (refused.what == Beside::kNamedAxes) {
      refuse(study, !study.parallel.tensor_axes.empty(), "parallel.tensor",
             why + "; write " + text(study.parallel.tensor));
      continue;
    }
    const auto* const asked =
        std::find_if(std::begin(kAsked), std::end(kAsked),
                     [&](const Asked& one) { return one.what == refused.what; });
    check(asked != std::end(kAsked), "each has its key");
    refuse(study, asked->is_asked(study), asked->key,
           !refused.why.empty() ? why
                                : std::string(asked->not_beside) + " with " + name +
                                      " in this version; " + asked->remedy);
  }
}

void check_atp(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  refuse(study, !study.sharding.empty() && parallel.tensor_mesh.empty(), "sharding",
         "names axes of a mesh that is yet to be chosen; write tensor_method: {name: atp, mesh: "
         "[" +
             text(parallel.tensor) + ", 1]}, or another one");
}

void check_smp(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.smp.optimize == SmpConfig::Optimize::kMemory && study.model.family != Family::kNcf &&
      study.model.hidden % parallel.tensor != 0)
    fail_at(study, "parallel.tensor",
            text(parallel.tensor) + " ranks do not divide model.hidden " +
                text(study.model.hidden) +
                ", which method smp splits between ops; write {name: smp, optimize: speed}, or "
                "another degree");
}

/// A sharding may have the study's own specs for what the method would split so.
void check_divided(const Study& study) {
  const std::vector<int>& mesh = study.parallel.tensor_mesh;
  if (mesh.empty() || !study.sharding.empty()) return;
  const auto wrong = undivided_by(mesh[0], mesh[1], study);
  if (!wrong) return;
  fail_at(
      study, kTensorMeshKey,
      with_remedy("the " + text(mesh[wrong->axis]) + " ranks of the " +
                      (wrong->axis == 0 ? "first" : "second") + " axis of mesh " + mesh_text(mesh) +
                      " do not divide model." + wrong->key + " " + text(wrong->number),
                  meshes_that_divide(study)));
}

}  // namespace

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

void check_tensor_method(Study& study) {
  const TensorMethod& method = tensor_method(study.parallel.tensor_method);
  if (method.form != nullptr) {
    if (study.parallel.tensor == 1) return;
    make_mesh_of_form(study, method);
  }
  if (method.name == "atp") check_mesh_ranks(study);
  if (method.name == "map") check_map_mesh(study);
  check_families(study, method);
  check_beside(study, method);
  if (method.form != nullptr) check_mesh_of_form(study, method);
  if (method.name == "smp") check_smp(study);
  if (method.name == "map") check_map_ops(study);
  if (method.name != "atp") return;
  check_atp(study);
  check_divided(study);
}

void choose_tensor_mesh(Study& study) {
  ParallelConfig& parallel = study.parallel;
  if (!study.cluster.pairs.empty() && (parallel.tensor_method != "map" || parallel.tensor == 1)) {
    study.warnings.push_back(
        "cluster.pairs is not used: a mesh is made of them for " +
        (parallel.tensor == 1 ? std::string("tensor above 1") : std::string("tensor_method map")) +
        ", and simulated times are those of the links");
  }
  if (parallel.tensor_method == "map") return choose_map_mesh(study);
  if (parallel.tensor_method != "atp" || !parallel.tensor_mesh.empty()) return;
  CommunicationMatrix matrix;
  if (parallel.measured_meshes.empty()) {
    auto made = communication_matrix(study.cluster);
    if (const auto* reason = std::get_if<Infeasible>(&made)) {
      fail_at(study, kMethodKey,
              "no mesh is chosen: " + reason->reason + "; write {name: atp, mesh: [" +
                  text(parallel.tensor) + ", 1]}, or another mesh");
    }
    matrix = std::get<CommunicationMatrix>(std::move(made));
  }
  auto meshes = atp_meshes(matrix, devices_of_tensor_group(parallel), parallel.measured_meshes,
                           AtpEquations::kPaper, atp_layers(study.model));
  if (meshes.empty()) {
    fail_at(study, "parallel.tensor_method.measured",
            "says nothing of a mesh of " + text(parallel.tensor) + " ranks");
  }
  const auto is_left_out = [&](const AtpMesh& mesh) {
    return undivided_by(mesh.d1, mesh.d2, study).has_value();
  };
  if (std::all_of(meshes.begin(), meshes.end(), is_left_out)) {
    const auto wrong = *undivided_by(meshes.back().d1, meshes.back().d2, study);
    const bool measured = !parallel.measured_meshes.empty();
    fail_at(study, measured ? "parallel.tensor_method.measured" : "parallel.tensor",
            with_remedy(std::string("no mesh of ") + text(parallel.tensor) + " ranks" +
                            (measured ? " that is named" : "") + " divides the model, " +
                            mesh_text({meshes.back().d1, meshes.back().d2}) + " not model." +
                            wrong.key + " " + text(wrong.number),
                        meshes_that_divide(study)));
  }
  const std::size_t left_out = std::erase_if(meshes, is_left_out);
  const AtpMesh& best = best_of(meshes);
  parallel.tensor_mesh = {best.d1, best.d2};
  study.origins[kTensorMeshKey] = derived_origin(
      "least all-reduce time of " + text(std::ssize(meshes)) + " meshes" +
      (left_out > 0 ? " that divide the model" : "") + ", by " +
      (parallel.measured_meshes.empty() ? "the cluster's links" : "measured bandwidths"));
}

}  // namespace trainyard
