#include "bench/fuzz_target.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/prepare.h"
#include "bench/fuzz_checkpoints.h"
#include "bench/fuzz_runs.h"
#include "calibrate/result/link_text.h"
#include "calibrate/result/table_profile.h"
#include "calibrate/tables/kernel_table.h"
#include "engine/base/error.h"
#include "engine/schedule/schedule_csv.h"
#include "models/hugging_face.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "study/cluster_preset.h"
#include "study/profile_reader.h"
#include "study/study_writer.h"
#include "study/sweep.h"
#include "tests/support/mutated_onnx.h"
#include "tests/support/mutated_study.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/study_outcome.h"

namespace trainyard {

namespace {

const std::string kRoot = TRAINYARD_SOURCE_DIR;

std::vector<std::string> texts_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> paths, out;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/" + folder)) {
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) out.push_back(read_text(path));
  return out;
}

/// The resolved form of a study says the same again.
void check_resolved(const Study& study, const StudyResolvers& resolvers) {
  const std::string text = resolved_study_text(study);
  try {
    const Study again = read_study_text(text, "study.resolved.yaml", {}, resolvers);
    if (!(again.model == study.model))
      throw Finding("taken, but its resolved form is of another model");
  } catch (const ConfigError& error) {
    throw Finding(std::string("taken, but its resolved form is refused: ") + error.what());
  }
}

/// Partitions of large models are not decided: that takes as long as they have layers.
void plan_small_models(StudyResolvers& resolvers) {
  constexpr std::int64_t kMostLayers = 256;
  const auto refuse_large = [](const Study& study) {
    if (num_layers(study.model) > kMostLayers) throw PlanError("many layers");
  };
  resolvers.plan_pipeline = [=, plan = resolvers.plan_pipeline](const PipelineRequest& request) {
    refuse_large(request.one_stage);
    return plan(request);
  };
  resolvers.plan_modules = [=, plan = resolvers.plan_modules](const ModulesRequest& request) {
    refuse_large(request.one_stage);
    return plan(request);
  };
}

FuzzTarget study_target() {
  FuzzTarget target{.name = "study", .file = "study.yaml"};
  const StudyCorpus corpus = read_corpus();
  for (const StudyFile& study : corpus.small) target.examples.push_back(study.text);
  for (const StudyFile& study : corpus.shipped) target.examples.push_back(study.text);
  auto warnings = std::make_shared<std::vector<std::string>>();
  StudyResolvers resolvers = make_resolvers(kRoot, *warnings);
  plan_small_models(resolvers);
  target.read = [resolvers, warnings](const std::string& text) {
    const YamlNode document = YamlNode::parse(text, "study.yaml");
    if (document.is_map()) {
      if (const auto block = document.find("sweep")) read_sweep(*block);
    }
    check_resolved(read_study_text(text, "study.yaml", {}, resolvers), resolvers);
  };
  return target;
}

/// A study that names the file, so that what is taken is resolved; small ones are built.
FuzzTarget config_target() {
  FuzzTarget target{.name = "config", .file = "config.json", .json = true};
  target.examples = texts_in("tests/golden/hugging_face", ".json");
  auto warnings = std::make_shared<std::vector<std::string>>();
  StudyResolvers resolvers = make_resolvers(kRoot, *warnings);
  target.read = [resolvers, warnings](const std::string& text) mutable {
    const HuggingFaceModel model = parse_hugging_face_config(text, "config.json");
    resolvers.model_file = [&](const std::string&) { return model.config; };
    const std::string study =
        "model: {preset: ./config.json, seq_len: " +
        std::to_string(std::min<std::int64_t>(model.config.seq_len, 64)) +
        "}\ncluster: {preset: dgx-a100-80g, nodes: 1}\ntraining: {global_batch: 8}\n";
    try {
      check_resolved(read_study_text(study, "study.yaml", {}, resolvers), resolvers);
    } catch (const ConfigError& error) {
      // What a plan asks for more than a model, such as the size of its tensors.
      const std::string what = error.what();
      if (!what.starts_with("study.yaml:")) throw Finding("refused as a model of a study: " + what);
    }
    if (num_layers(model.config) > 200 || model.config.vocab > 1'000'000) return;
    ModelConfig small = model.config;
    small.seq_len = std::min<std::int64_t>(small.seq_len, 64);
    small.decoder_seq_len = std::min<std::int64_t>(small.decoder_seq_len, 64);
    try {
      build_model(small, {});
    } catch (const ConfigError&) {  // a tensor of more than 2^40 elements
    }
  };
  return target;
}

FuzzTarget onnx_target() {
  FuzzTarget target{.name = "onnx", .file = "", .lines = false, .mutate = mutate_onnx};
  for (const std::string& text : texts_in("tests/golden/onnx", ".onnx")) {
    if (text.size() < 250'000) target.examples.push_back(text);
  }
  target.read = [](const std::string& text) {
    ModelConfig config;
    config.family = Family::kOnnx;
    config.norm_eps = 1e-5;
    config.onnx = parse_onnx(text, "model.onnx");
    for (const OnnxInput& model_input : config.onnx->inputs) {
      for (std::size_t d = 1; d < model_input.dims.size(); ++d) {
        if (!model_input.dims[d].symbol.empty()) config.axes[model_input.dims[d].symbol] = 12;
      }
    }
    set_onnx_numbers(config);
    build_model(config, {.microbatch = 2});
  };
  return target;
}

FuzzTarget schedule_target() {
  FuzzTarget target{.name = "schedule", .file = "rows.csv"};
  target.examples = texts_in("tests/golden", "compute.csv");
  target.examples.insert(target.examples.end(),
                         {"0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n",
                          "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,1F1,2F0,2B0,2F1,2B1,1B0,1B1\n",
                          "0F0,0F1,0R0,0I0,0W0,0R1*,0I1,0W1\n1F0,1B0,1F1,(1F2;1B1)OVERLAP_F_B\n"});
  target.read = [](const std::string& text) {
    const PipelineSchedule schedule = parse_schedule_csv(text, "rows.csv");
    try {
      parse_schedule_csv(schedule_csv(schedule), "again.csv");
    } catch (const ConfigError& error) {
      throw Finding(std::string("taken, but what is written of it is refused: ") + error.what());
    }
  };
  return target;
}

FuzzTarget kernels_target() {
  FuzzTarget target{.name = "kernels", .file = "kernels.csv"};
  const std::string vidur =
      "time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,time_stats.mlp_up_proj."
      "median,"
      "time_stats.mlp_down_proj.median,num_tokens,num_tensor_parallel_workers,n_head,n_kv_head,n_"
      "embd,n_expanded_embd,"
      "use_gated_mlp\n0.1,0.05,0.2,0.1,128,1,32,32,4096,11008,True\n0.2,0.1,0.4,0.2,256,2,32,32,"
      "4096,11008,True\n";
  target.examples = {
      "m,k,n,us\n256,512,1024,10\n256,512,1024,12\n256,512,1024,11\n512,512,1024,20\n",
      "m,k,n,part,us\n64,128,256,input_grad,5\n64,128,256,weight_grad,7\n64,128,256,forward,6\n",
      vidur};
  const auto like =
      std::make_shared<const HardwareProfile>(*find_hardware_profile(kRoot, "a100-sxm-80g"));
  target.read = [like](const std::string& text) {
    const KernelTable table = read_kernel_table(text, "kernels.csv", DType::kBf16, "");
    const std::string profile = table_profile_text(table, *like, "timed by others");
    read_hardware_profile(kRoot, "fuzz", YamlNode::parse(profile, "kernels.csv"));
  };
  return target;
}

FuzzTarget nccl_target() {
  FuzzTarget target{.name = "nccl", .file = "all_reduce_8gpu_x.txt"};
  const std::string head =
      "# nThread 1 nGpus 2 minBytes 1024 maxBytes 1073741824 step: 32(factor) warmup iters: 5\n#\n";
  const std::string columns =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
      "(us)  (GB/s)  (GB/s)\n";
  const std::string rows =
      "        1024          256     float     sum      -1   100.02   1.00   1.00      0   999.9   "
      "1.00   1.00      0\n"
      "     1048576       262144     float     sum      -1   120.97   1.00   1.00      0   999.9   "
      "1.00   1.00      0\n"
      "  1073741824    268435456     float     sum      -1 21574.84   1.00   1.00      0   999.9   "
      "1.00   1.00      0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n#\n";
  const auto rank = [](int number, int host) {
    return "#  Rank " + std::to_string(number) + " Group  0 Pid   4711 on   node" +
           std::to_string(host) + " device  " + std::to_string(number % 2) +
           " [0x07] NVIDIA H100\n";
  };
  const std::string test = "# Collective test starting: all_reduce_perf\n#\n";
  target.examples = {
      head + rank(0, 0) + rank(1, 0) + test + columns + rows,
      head + rank(0, 0) + rank(1, 0) + rank(2, 1) + rank(3, 1) + test + columns + rows,
      "size(B),count,type,time(ns),algbw\n1024,256,float,12000,1\n4096,1024,float,13000,1\n1048576,"
      "262144,float,90000,1\n",
      "time_stats.all_reduce.median,num_workers,size,collective,devices_per_node\n0.02,2,1024,all_"
      "reduce,4\n"
      "0.03,2,1048576,all_reduce,4\n0.3,4,16777216,all_reduce,4\n"};
  target.read = [](const std::string& text) {
    const std::string file = "all_reduce_8gpu_x.txt";
    const std::string links = link_text(read_message_tables(text, file), "Fitted to " + file);
    try {
      YamlNode::parse(links, "links.yaml");
    } catch (const ConfigError& error) {
      throw Finding(std::string("taken, but what is written of it is refused: ") + error.what());
    }
  };
  return target;
}

/// Taken profiles time a step.
FuzzTarget profile_target() {
  FuzzTarget target{.name = "profile", .file = "profile.yaml"};
  target.examples = texts_in("calibrate/profiles", ".yaml");
  target.read = [](const std::string& text) {
    const HardwareProfile profile =
        read_hardware_profile(kRoot, "fuzz", YamlNode::parse(text, "profile.yaml"));
    std::vector<std::string> warnings;
    StudyResolvers resolvers = make_resolvers(kRoot, warnings);
    resolvers.hardware = [&](const std::string&) { return std::optional(profile); };
    const std::string yaml =
        "model: {family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 32}\n"
        "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 2, data: 2}\n"
        "training: {global_batch: 8, microbatch: 2, precision: fp32}\nfidelity: analytic\n";
    Outcome outcome;
    try {
      outcome.study = read_study_text(yaml, "study.yaml", {}, resolvers);
    } catch (const ConfigError&) {
      return;  // no such precision, say
    }
    auto answer = simulate(prepare_study(*outcome.study, resolvers), {});
    if (std::holds_alternative<Infeasible>(answer)) return;
    outcome.simulation = std::move(std::get<Simulation>(answer));
    outcome.kind =
        outcome.simulation->summary.fits ? Outcome::Kind::kFits : Outcome::Kind::kDoesNotFit;
    const std::string problem = find_implausible(outcome);
    // A profile may say that kernels are faster than its peak.
    if (!problem.empty() && !problem.starts_with("mfu")) throw Finding("taken, but " + problem);
  };
  return target;
}

FuzzTarget software_target() {
  FuzzTarget target{.name = "software", .file = "software.yaml"};
  target.examples = texts_in("calibrate/software", ".yaml");
  target.read = [](const std::string& text) {
    read_software_profile(YamlNode::parse(text, "software.yaml"));
  };
  return target;
}

FuzzTarget cluster_target() {
  FuzzTarget target{.name = "cluster", .file = "cluster.yaml"};
  target.examples = texts_in("topologies", ".yaml");
  target.read = [](const std::string& text) {
    read_cluster_preset(kRoot, "fuzz", YamlNode::parse(text, "cluster.yaml"));
  };
  return target;
}

using Make = FuzzTarget (*)();
const std::vector<std::pair<std::string, Make>>& targets() {
  static const std::vector<std::pair<std::string, Make>> all = {
      {"study", study_target},       {"config", config_target},   {"schedule", schedule_target},
      {"kernels", kernels_target},   {"nccl", nccl_target},       {"profile", profile_target},
      {"software", software_target}, {"cluster", cluster_target}, {"trace", trace_target},
      {"summary", summary_target},   {"losses", losses_target},   {"sweep", sweep_target},
      {"measured", measured_target}, {"program", program_target}, {"index", index_target},
      {"shard", shard_target},       {"weights", weights_target}, {"onnx", onnx_target}};
  return all;
}

}  // namespace

std::vector<std::string> fuzz_target_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : targets()) names.push_back(name);
  return names;
}

FuzzTarget make_fuzz_target(const std::string& name) {
  for (const auto& [known, make] : targets()) {
    if (known == name) return make();
  }
  throw std::runtime_error("no target is called " + name);
}

}  // namespace trainyard
