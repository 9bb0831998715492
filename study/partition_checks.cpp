// Whether a study's layers can be divided as its partition says.
#include <algorithm>
#include <string>

#include "engine/base/nearest_that_do.h"
#include "engine/base/readable.h"
#include "engine/plan/plan_limits.h"
#include "study/cut_keys.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

void check_cuts(const Study& study, std::int64_t layers, std::int64_t stages) {
  const std::vector<StageCut>& cuts = study.partition.cuts;
  const auto num_cuts = static_cast<std::int64_t>(cuts.size());
  if (num_cuts != stages - 1) {
    const std::string made =
        num_cuts == 1 ? "1 cut makes " : std::to_string(num_cuts) + " cuts make ";
    const std::string remedy = stages == 1   ? "write partition: uniform"
                               : stages == 2 ? "write 1 cut"
                                             : "write " + std::to_string(stages - 1) + " cuts";
    const std::string said = !study.partition.on.empty() ? "partition.on says where "
                             : study.partition.replicas.empty()
                                 ? "pipeline x virtual_stages = "
                                 : "the pipeline ranks of partition.replicas x virtual_stages = ";
    fail_at(study, cuts_key(study),
            made + std::to_string(num_cuts + 1) + (num_cuts == 0 ? " stage" : " stages") +
                ", but " + said + std::to_string(stages) +
                (study.partition.on.empty() ? "; " : " lie; ") + remedy);
  }
  const bool says_layers = study.model.onnx == nullptr;  // else its graph does
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const StageCut& cut = cuts[i];
    if (!cut.at.empty() || cut.layer < layers || !says_layers) continue;
    fail_at(study, cut_key(study, i),
            std::string(&cut == &cuts.back() ? "the last" : "a") + " stage would begin at layer " +
                std::to_string(cut.layer) + ", but layers count from 0 to " +
                std::to_string(layers - 1));
  }
  const bool by_name =
      std::any_of(cuts.begin(), cuts.end(), [](const StageCut& cut) { return !cut.at.empty(); });
  if (by_name && study.parallel.tensor_overlap != "none") {
    fail_at(study, "parallel.tensor_overlap",
            "chunks of a microbatch alternate within layers, which partition.cuts divides; write "
            "none, or cuts of whole layers");
  }
}

/// What parallel.pipeline follows from; empty: it stands for itself.
std::string pipeline_key(const Study& study) {
  if (!study.partition.on.empty()) return "partition.on";
  return study.partition.replicas.empty() ? "" : "partition.replicas";
}

[[noreturn]] void fail_uneven_stages(const Study& study, std::int64_t layers) {
  const std::int64_t pipeline = study.parallel.pipeline;
  const std::int64_t v = study.parallel.virtual_stages;
  const std::string layers_text = std::to_string(layers) + " layers" +
                                  (study.partition.ends ? ", embedding and head counted" : "");
  if (const std::string key = pipeline_key(study); !key.empty()) {
    fail_at(study, key,
            std::to_string(study.num_stages()) + " stages do not divide " + layers_text +
                "; cuts or uneven: true allow it");
  }
  const std::string remedy =
      nearest_that_do(pipeline, std::min<std::int64_t>(layers / v, kMaxRanks),
                      [&](std::int64_t degree) { return layers % (degree * v) == 0; });
  std::string problem = std::to_string(pipeline) + " stages do not divide " + layers_text;
  if (v > 1) {
    problem = std::to_string(pipeline) + " ranks of " + std::to_string(v) +
              " virtual stages = " + std::to_string(pipeline * v) + " stages do not divide " +
              layers_text;
  }
  fail_at(
      study, v > 1 && pipeline == 1 ? "parallel.virtual_stages" : "parallel.pipeline",
      with_remedy(problem, remedy.empty() ? "partition: {method: uniform, uneven: true} allows it"
                                          : remedy));
}

/// Methods that divide layers however many there are.
void check_enough_layers(const Study& study, std::int64_t layers, std::int64_t stages) {
  const bool overlaps = study.parallel.tensor_overlap != "none";
  const std::string& method = study.partition.method;
  const bool search = method == "search" || method == "autopipe";
  const bool between_ops = search || study.partition.between == PartitionConfig::Between::kOps;
  if (between_ops && overlaps) {
    fail_at(study, "parallel.tensor_overlap",
            "chunks of a microbatch alternate within layers, which partition" +
                std::string(search ? ": " + method + " divides; write none, or partition: cost"
                                   : ".between: ops divides; write none, or between: layers"));
  }
  if (between_ops || stages <= layers || study.model.onnx != nullptr) return;
  const std::string key = pipeline_key(study);
  fail_at(study, key.empty() ? "parallel.pipeline" : key,
          std::to_string(stages) + " stages are more than the model's " + std::to_string(layers) +
              " layers");
}

/// What does not go with modules on devices.
void check_modules(const Study& study) {
  if (study.parallel.tensor_overlap != "none") {
    fail_at(study, "parallel.tensor_overlap",
            "chunks of a microbatch alternate within layers, which partition smp divides; write "
            "none");
  }
}

}  // namespace

void check_partition(const Study& study) {
  const std::int64_t stages = study.num_stages();
  const std::int64_t own_layers = num_layers(study.model);
  const std::int64_t layers = own_layers + (study.partition.ends ? 2 : 0);
  if (study.partition.method == "cuts") return check_cuts(study, own_layers, stages);
  if (study.partition.method == "smp") return check_modules(study);
  if (study.partition.method != "uniform") return check_enough_layers(study, own_layers, stages);
  if (!study.partition.uneven) {
    if (layers % stages != 0) fail_uneven_stages(study, layers);
    return;
  }
  if (layers == 0) return check_enough_layers(study, own_layers, stages);
  const std::int64_t each = (layers + stages - 1) / stages;
  if ((stages - 1) * each < layers) return;
  const std::string key = pipeline_key(study);
  fail_at(study, key.empty() ? "parallel.pipeline" : key,
          plural(each, "layer") + " a stage leave none of " + std::to_string(layers) +
              " for the last of " + std::to_string(stages) + "; " +
              (key.empty() ? plural((layers + each - 1) / each, "stage") + " have them all"
                           : "cuts say how many each has"));
}

}  // namespace trainyard
