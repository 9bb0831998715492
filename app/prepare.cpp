#include "app/prepare.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "app/plan_by_rannc.h"
#include "app/plan_by_search.h"
#include "app/plan_by_smp.h"
#include "app/resolve_by_cost.h"
#include "engine/base/quantity.h"
#include "engine/base/readable.h"
#include "engine/plan/graph_source.h"
#include "models/hugging_face.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "models/presets.h"
#include "study/cluster_preset.h"
#include "study/framework_profile.h"
#include "study/preset_names.h"
#include "study/profile_reader.h"
#include "study/recompute_modules.h"
#include "study/resolve_sharding.h"
#include "study/split_modules.h"
#include "study/study_origin.h"
#include "study/study_writer.h"
#include "system/data_root.h"
#include "system/this_cpu.h"

namespace trainyard {

namespace {

/// Remembers what a look-up answered: the reader asks for the same profile several times, and
/// parsing it takes a millisecond.
template <typename LookUp>
auto remembered(LookUp look_up) {
  using Answer = std::invoke_result_t<LookUp, const std::string&, const std::string&>;
  using Names = std::pair<std::string, std::string>;
  auto known = std::make_shared<std::map<Names, Answer>>();
  return [known, look_up](const std::string& first, const std::string& second) -> Answer {
    const Names names(first, second);
    const auto it = known->find(names);
    if (it != known->end()) return it->second;
    return known->emplace(names, look_up(first, second)).first->second;
  };
}

/// What tells studies apart that leave times to measurements.
std::string text_of(const TimesOfOps& times) {
  return times.emulated ? " emulated " + times.file + "\n" : std::string();
}

/// All that the answer to a request follows from.
std::string text_of(const PipelineRequest& request) {
  const PartitionConfig& partition = request.partition;
  std::string text = resolved_study_text(request.one_stage) +
                     text_of(request.one_stage.times_of_ops) + request.schedule + partition.method;
  for (const double number :
       {static_cast<double>(partition.rule), static_cast<double>(partition.blocks),
        partition.margin, partition.budget, static_cast<double>(request.stages),
        static_cast<double>(request.each), static_cast<double>(request.microbatches),
        request.shards_state ? 1.0 : 0.0, request.recompute ? 1.0 : 0.0})
    text += " " + number_text(number);
  return text;
}

std::string text_of(const ModulesRequest& request) {
  const PartitionConfig& partition = request.partition;
  std::string text =
      resolved_study_text(request.one_stage) + text_of(request.one_stage.times_of_ops);
  for (const auto& [pattern, rank] : partition.assign)
    text += pattern + "=" + std::to_string(rank) + "\n";
  for (const double number :
       {partition.memory_weight, static_cast<double>(partition.times),
        static_cast<double>(partition.routing), static_cast<double>(partition.fallback),
        static_cast<double>(request.devices)})
    text += " " + number_text(number);
  return text;
}

}  // namespace

StudyResolvers make_resolvers(const std::string& root, std::vector<std::string>& warnings,
                              TimeOps time_ops) {
  StudyResolvers resolvers;
  resolvers.time_ops = std::move(time_ops);
  resolvers.model_preset = [](const std::string& name) -> std::optional<ModelConfig> {
    const ModelPreset* preset = find_model_preset(name);
    if (preset == nullptr) return std::nullopt;
    return preset->config;
  };
  resolvers.model_file = [&warnings](const std::string& path) {
    HuggingFaceModel imported = read_hugging_face_config(path);
    warnings.insert(warnings.end(), imported.warnings.begin(), imported.warnings.end());
    return imported.config;
  };
  const auto read_model =
      remembered([](const std::string& path, const std::string&) { return read_onnx(path); });
  resolvers.onnx_file = [read_model](const std::string& path,
                                     const std::map<std::string, std::int64_t>& axes) {
    ModelConfig config;
    config.family = Family::kOnnx;
    config.name = std::filesystem::path(path).stem().string();
    // Resolved studies lie elsewhere.
    config.onnx_file = std::filesystem::absolute(path).lexically_normal().string();
    config.onnx = read_model(path, "");
    config.axes = axes;
    config.norm_eps = 1e-5;
    set_onnx_numbers(config);
    return config;
  };
  using Model = std::shared_ptr<const OnnxModel>;
  const auto buffered =
      std::make_shared<std::map<std::pair<Model, std::vector<std::string>>, Model>>();
  resolvers.onnx_buffers = [buffered](const Model& model, const std::vector<std::string>& buffers) {
    Model& known = (*buffered)[{model, buffers}];
    if (known == nullptr) known = with_buffers(model, buffers);
    return known;
  };
  const auto preset = remembered([root](const std::string& name, const std::string&) {
    return find_cluster_preset(root, name);
  });
  resolvers.cluster_preset = [preset](const std::string& name) { return preset(name, ""); };
  resolvers.cluster_file = [root](const std::string& path) {
    return read_cluster_file(root, path);
  };
  resolvers.link = remembered([root](const std::string& kind, const std::string& device) {
    return find_link(root, kind, device);
  });
  resolvers.software = remembered([root](const std::string& name, const std::string& version) {
    return find_software_profile(root, name, version);
  });
  const auto memory_error = remembered(
      [root](const std::string&, const std::string&) { return read_memory_error(root); });
  resolvers.memory_error = [memory_error] { return memory_error("", ""); };
  const auto hardware = remembered([root](const std::string& device, const std::string&) {
    return find_hardware_profile(root, device);
  });
  resolvers.hardware = [hardware](const std::string& device) { return hardware(device, ""); };
  resolvers.local_device = [] { return cpu_profile(cpu_flags()); };
  resolvers.model_problem =
      [](const ModelConfig& config) -> std::optional<StudyResolvers::Problem> {
    const auto problem = find_problem(config);
    if (!problem) return std::nullopt;
    return StudyResolvers::Problem{problem->key, problem->problem};
  };
  resolvers.names = [root](StudyResolvers::Names which) { return preset_names(root, which); };
  const auto planned = std::make_shared<std::map<std::string, PlannedPipeline>>();
  // A copy, for it goes on behind this function, as the one that is returned does.
  resolvers.plan_pipeline = [known = resolvers, planned](const PipelineRequest& request) {
    const std::string all = text_of(request);
    const auto found = planned->find(all);
    if (found != planned->end()) return found->second;
    const bool search = request.partition.method == "search-pipeline";
    return planned
        ->emplace(all, search ? plan_by_search(request, known) : plan_by_rannc(request, known))
        .first->second;
  };
  const auto placed = std::make_shared<std::map<std::string, PlannedModules>>();
  resolvers.plan_modules = [known = resolvers, placed](const ModulesRequest& request) {
    const std::string all = text_of(request);
    const auto found = placed->find(all);
    if (found != placed->end()) return found->second;
    return placed->emplace(all, plan_by_smp(request, known)).first->second;
  };
  return resolvers;
}

std::int64_t ranks_of_node(const Study& study) {
  return std::min(study.cluster.devices_per_node, study.parallel.num_ranks());
}

namespace {

/// An exported model of one sample may have other ops than of several: what is repeated for each
/// sample is then there already.
void check_same_ops(const Study& study, const Graph& model, const Graph& smaller,
                    std::int64_t samples) {
  const auto alike = [](const Op& a, const Op& b) { return a.kind == b.kind; };
  if (model.tensors.size() == smaller.tensors.size() &&
      std::equal(model.ops.begin(), model.ops.end(), smaller.ops.begin(), smaller.ops.end(), alike))
    return;
  fail_at(study, "training.microbatch",
          "microbatches differ in size, and with " + plural(samples, "sample") +
              " on a replica the model has other operations than with more; give each at least "
              "two, or all as many");
}

}  // namespace

Prepared prepare_study(Study study, const StudyResolvers& resolvers) {
  Prepared out;
  const auto hardware = resolvers.hardware(study.cluster.device);
  check(hardware.has_value(), "the reader has looked the profile up");
  out.hardware = on_ranks(*hardware, ranks_of_node(study));
  out.software = software_of(study, resolvers);
  out.memory_error = resolvers.memory_error();
  const GraphSource source = graph_source(study);
  const auto build = [&](std::size_t size) {
    try {
      return build_model(source.model, {source.sizes[size], source.precision, source.dropout},
                         size == 0 ? &study.warnings : nullptr);
    } catch (const ConfigError& error) {
      // A key that only the graph shows to be wrong.
      if (error.key_path().empty()) throw;
      throw error_at(study, error.key_path(), error.problem());
    }
  };
  out.model = build(0);
  for (std::size_t i = 1; i < source.sizes.size(); ++i) {
    out.model.smaller.push_back(build(i));
    check_same_ops(study, out.model, out.model.smaller.back(), source.sizes[i]);
  }
  check_recompute_modules(study, out.model);
  check_split_modules(study, out.model);
  check_gathered_modules(study, out.model);
  resolve_sharding(study, out.model, out.software);
  out.study = std::move(study);
  resolve_by_cost(out);
  return out;
}

Prepared prepare(const std::string& path, const std::vector<std::string>& sets,
                 const std::string& fidelity, TimeOps time_ops) {
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(data_root(), warnings, std::move(time_ops));
  YamlNode document = YamlNode::load_file(path);
  if (!fidelity.empty()) document.set("fidelity=" + fidelity, "--fidelity " + fidelity);
  Study study = read_study_node(std::move(document), sets, resolvers);
  study.warnings.insert(study.warnings.end(), warnings.begin(), warnings.end());
  return prepare_study(std::move(study), resolvers);
}

}  // namespace trainyard
