// Reads a study: YAML text and --set options in, a checked Study out.
//
// Everything the study can say wrong ends as a ConfigError at its line. Names (of models, clusters,
// devices, links, frameworks) are looked up through StudyResolvers, so this file knows no preset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cost/cpu_profile.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/planner/op_times.h"
#include "study/memory_error.h"
#include "study/planned_pipeline.h"
#include "study/study.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// What a study may name. Each look-up by name answers nullopt for a name that it does not know;
/// the reader then refuses it at its line with the list of those it does. Each look-up by path
/// throws a ConfigError that names the place in that file, without a line where it cannot be read:
/// that is then refused at the study's line.
struct StudyResolvers {
  enum class Names : std::uint8_t { kModels, kClusters, kLinks, kHardware, kSoftware };
  struct Problem {
    std::string key;  // of the model block: "heads"
    std::string text;
  };

  std::function<std::optional<ModelConfig>(const std::string& name)> model_preset;
  std::function<ModelConfig(const std::string& path)> model_file;  // a Hugging Face config.json

  /// The ONNX file with its axes bound; throws ConfigError where they are not.
  std::function<ModelConfig(const std::string& path,
                            const std::map<std::string, std::int64_t>& axes)>
      onnx_file;
  /// That model with tensors that are not trained (with_buffers()): of equal questions one answer,
  /// so that what was built of it serves again.
  std::function<std::shared_ptr<const OnnxModel>(const std::shared_ptr<const OnnxModel>& model,
                                                 const std::vector<std::string>& buffers)>
      onnx_buffers;

  /// One node (num_nodes 1): devices_per_node, device, both link classes; `nodes: N` scales it.
  std::function<std::optional<Cluster>(const std::string& name)> cluster_preset;
  std::function<Cluster(const std::string& path)> cluster_file;  // a file of topologies/

  /// Curves of a kind of link ("nvswitch", "infiniband", ...) between such devices, with its usual
  /// bandwidth, or bandwidth 0 where the kind has none. LinkClass says what bandwidth counts.
  std::function<std::optional<LinkClass>(const std::string& kind, const std::string& device)> link;

  std::function<std::optional<HardwareProfile>(const std::string& device)> hardware;
  /// The profile of this machine's CPU, and the flags that it was chosen by. Asked for studies of
  /// this machine alone. May be empty: then it is that of the preset.
  std::function<CpuProfile()> local_device;
  /// version "": the framework's default; the profile says which that was.
  std::function<std::optional<SoftwareProfile>(const std::string& name, const std::string& version)>
      software;

  std::function<MemoryError()> memory_error;

  /// The first reason why no model can be built from this configuration. May be empty.
  std::function<std::optional<Problem>(const ModelConfig& config)> model_problem;

  /// Decides what a study of partition rannc leaves out. Throws ConfigError at the key to blame,
  /// PlanError where nothing fits. May be empty: then that method is refused.
  std::function<PlannedPipeline(const PipelineRequest& request)> plan_pipeline;

  /// Decides where the modules of a study of partition smp lie. Throws ConfigError at the key to
  /// blame. May be empty: then that method is refused.
  std::function<PlannedModules(const ModulesRequest& request)> plan_modules;

  /// Runs the study, which has one stage, on this machine, and says what its kernels took. Throws
  /// ConfigError, PlanError, BackendError. May be empty: then nothing is measured.
  std::function<OpTimes(const Study& one_stage)> time_ops;

  /// The names that a look-up knows, for messages. May be empty.
  std::function<std::vector<std::string>(Names which)> names;
};

/// Applies the arguments of --set, "path=value", in their order, to a study not read yet.
void apply_options(YamlNode& document, const std::vector<std::string>& sets);

/// `sets` are the arguments of --set, "path=value", in their order: a later one wins.
Study read_study_text(const std::string& text, const std::string& file_name,
                      const std::vector<std::string>& sets, const StudyResolvers& resolvers);

/// The same of a document read already, or of a part of one: a case of a list of cases.
Study read_study_node(YamlNode root, const std::vector<std::string>& sets,
                      const StudyResolvers& resolvers);

/// The cluster that a document's `cluster:` says, as a study's does; the document is no study.
Cluster read_cluster_block(const YamlNode& document, const StudyResolvers& resolvers);

}  // namespace trainyard
