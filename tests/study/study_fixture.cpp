#include "tests/study/study_fixture.h"

#include <map>

#include "engine/base/mistakes.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

ModelConfig gpt_tiny() {
  ModelConfig model;
  model.name = "gpt-tiny";
  model.layers = 12;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  model.head_dim = 64;
  model.ffn = 2048;
  model.vocab = 1001;
  model.seq_len = model.max_positions = 256;
  return model;
}

ModelConfig llama_tiny() {
  ModelConfig model = gpt_tiny();
  model.name = "llama-tiny";
  model.family = Family::kLlama;
  model.kv_heads = 2;
  model.ffn = 1792;
  model.max_positions = 0;
  model.activation = Activation::kSwiglu;
  model.tied_embeddings = model.linear_bias = model.qkv_bias = false;
  return model;
}

LinkClass link_of(const std::string& kind, BytesPerSecond bandwidth) {
  LinkClass link;
  link.kind = kind;
  link.bandwidth = bandwidth;
  link.collective = {20e-6, 3e-6, 0.8, 1 << 20};
  link.point_to_point = {8e-6, 0, 0.9, 0};
  link.source = "fixture";
  return link;
}

std::optional<LinkClass> find_link(const std::string& kind, const std::string&) {
  const std::map<std::string, double> usual = {
      {"nvswitch", 300e9}, {"infiniband", 25e9}, {"roce", 25e9}, {"ethernet", 0}, {"pcie", 0}};
  const auto found = usual.find(kind);
  if (found == usual.end()) return std::nullopt;
  return link_of(kind, found->second);
}

std::optional<Cluster> find_cluster(const std::string& name) {
  if (name != "box" && name != "lone" && name != kLocalCluster) return std::nullopt;
  Cluster cluster;
  cluster.name = name;
  cluster.device = "a100";
  cluster.devices_per_node = cluster.num_devices = 8;
  cluster.intra = link_of("nvswitch", 300e9);
  cluster.inter = link_of("infiniband", 200e9);
  if (name == "lone") cluster.inter.kind = "none";
  return cluster;
}

std::optional<HardwareProfile> find_hardware(const std::string& name) {
  const std::map<std::string, std::string> architectures = {
      {"a100", "ampere"}, {"h100", "hopper"}, {"cpu", "cpu"}};
  const auto found = architectures.find(name);
  if (found == architectures.end()) return std::nullopt;
  HardwareProfile profile;
  profile.name = name;
  profile.architecture = found->second;
  profile.peak = {{DType::kFp32, 1e13}, {DType::kFp16, 1e14}, {DType::kBf16, 1e14}};
  if (name == "cpu") profile.peak = {{DType::kFp32, 1e11}, {DType::kFp64, 1e11}};
  profile.host_link.bandwidth = 25e9;
  return profile;
}

std::optional<SoftwareProfile> find_software(const std::string& name, const std::string& version) {
  SoftwareProfile profile;
  profile.name = name;
  profile.version = version;
  if (version == "compiled") return std::nullopt;
  if (name == "trainyard") return profile;
  if (name == "halfgrad") {
    profile.grad_dtype = DType::kFp16;
    return profile;
  }
  const bool megatron =
      name == "megatron-lm" && (version == "2021" || version == "2022" || version == "current");
  if (!megatron) return std::nullopt;
  profile.placement = "PDT";
  profile.schedules = {"1f1b", "interleaved"};
  profile.provenance["schedules"] = {"derived", "its source", 0};
  profile.flash_attention = version == "current";
  return profile;
}

std::vector<std::string> names(StudyResolvers::Names which) {
  switch (which) {
    case StudyResolvers::Names::kModels: return {"gpt-tiny", "llama-tiny"};
    case StudyResolvers::Names::kClusters: return {"box", "lone"};
    case StudyResolvers::Names::kLinks:
      return {"ethernet", "infiniband", "nvswitch", "pcie", "roce"};
    case StudyResolvers::Names::kHardware: return {"a100", "cpu", "h100"};
    case StudyResolvers::Names::kSoftware: return {"halfgrad", "megatron-lm", "trainyard"};
  }
  return {};
}

}  // namespace

StudyResolvers fixture_resolvers() {
  StudyResolvers resolvers;
  resolvers.model_preset = [](const std::string& name) -> std::optional<ModelConfig> {
    if (name == "gpt-tiny") return gpt_tiny();
    if (name == "llama-tiny") return llama_tiny();
    return std::nullopt;
  };
  resolvers.model_file = [](const std::string& path) {
    if (path == "broken.json") throw ConfigError({path, 3, 7}, "n_head", "expected an integer");
    if (path == "missing.json") throw ConfigError({path}, "", "cannot be read");
    ModelConfig model = gpt_tiny();
    model.name = path;
    return model;
  };
  resolvers.cluster_preset = find_cluster;
  resolvers.cluster_file = [](const std::string& path) {
    if (path == "missing.yaml") YamlNode::load_file(path);
    Cluster cluster = *find_cluster("box");
    cluster.name = path;
    cluster.num_nodes = 4;
    cluster.num_devices = 32;
    return cluster;
  };
  resolvers.link = find_link;
  resolvers.hardware = find_hardware;
  resolvers.software = find_software;
  resolvers.names = names;
  return resolvers;
}

Study read(const std::string& text, const std::vector<std::string>& sets) {
  return read_study_text(text, "study.yaml", sets, fixture_resolvers());
}

std::vector<std::string> errors_of(const std::string& text, const std::vector<std::string>& sets) {
  try {
    read(text, sets);
    return {};
  } catch (const ConfigError& error) {
    std::vector<std::string> all;
    for (const Mistake& mistake : mistakes_in_order(error)) all.push_back(mistake.what);
    return all;
  }
}

std::string error_of(const std::string& text, const std::vector<std::string>& sets) {
  try {
    read(text, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trainyard
