// Methods of tensor parallelism: what their rows say that goes with each, and the mesh of a study
// that names none.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/passes/tensor_methods.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

void refuse(const Study& study, bool wrong, const std::string& key, const std::string& why) {
  if (wrong) fail_at(study, key, why);
}

void check_families(const Study& study, const TensorMethod& method) {
  const Family family = study.model.family;
  if (has_family(method, family)) return;
  std::vector<std::string> names;
  for (const Family one : method.families) names.emplace_back(to_string(one));
  const std::string does(method.does);
  fail_at(study, "parallel.tensor_method",
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
    {Beside::kFp8, "training.precision", [](const Study& study) { return study.training.fp8.on(); },
     "write bf16", "fp8 does not go"}};

void check_beside(const Study& study, const TensorMethod& method) {
  const std::string name = "method " + std::string(method.name);
  for (const NotBeside& refused : method.refused) {
    const std::string why = name + " " + std::string(refused.why);
    if (refused.what == Beside::kNamedAxes) {
      refuse(study, !study.parallel.tensor_axes.empty(), "parallel.tensor",
             why + "; write " + std::to_string(study.parallel.tensor));
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

/// "tensor_method map"
std::string methods_that_read_pairs() {
  std::vector<std::string> names;
  for (const TensorMethod& method : tensor_methods()) {
    if (method.reads_pairs) names.emplace_back(method.name);
  }
  return "tensor_method " + join_words(names);
}

void fail_with(const Study& study, const MethodProblem& problem) {
  if (problem) fail_at(study, problem->key, problem->reason);
}

}  // namespace

void check_tensor_method(Study& study) {
  const TensorMethod& method = tensor_method(study.parallel.tensor_method);
  if (method.form != nullptr && study.parallel.tensor == 1) return;
  if (method.arrange != nullptr) fail_with(study, method.arrange(study));
  check_families(study, method);
  check_beside(study, method);
  if (method.check != nullptr) fail_with(study, method.check(study));
}

void choose_tensor_mesh(Study& study) {
  ParallelConfig& parallel = study.parallel;
  const TensorMethod& method = tensor_method(parallel.tensor_method);
  if (!study.cluster.pairs.empty() && (!method.reads_pairs || parallel.tensor == 1)) {
    study.warnings.push_back(
        "cluster.pairs is not used: a mesh is made of them for " +
        (parallel.tensor == 1 ? std::string("tensor above 1") : methods_that_read_pairs()) +
        ", and simulated times are those of the links");
  }
  if (method.choose_mesh == nullptr || !parallel.tensor_mesh.empty()) return;
  auto chosen = method.choose_mesh(study, study.cluster);
  if (const auto* reason = std::get_if<Infeasible>(&chosen)) fail_with(study, *reason);
  auto& [mesh, reason] = std::get<ChosenMesh>(chosen);
  parallel.tensor_mesh = std::move(mesh);
  study.origins[kTensorMeshKey] = derived_origin(reason);
}

}  // namespace trainyard
