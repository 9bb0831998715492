// What a study means: the forms of each block, the defaults and where each value came from.
#include "study/study_reader.h"

#include <catch2/catch.hpp>
#include <string>

#include "study/study_origin.h"
#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::study_reader_test {

namespace {

const std::string kRest = "cluster: box\ntraining: {global_batch: 8}\n";

ModelConfig model(const std::string& block) { return read("model: " + block + "\n" + kRest).model; }

Study with_training(const std::string& keys, const std::string& more = "") {
  return read("model: gpt-tiny\ncluster: box\ntraining: {global_batch: 8, " + keys + "}\n" + more);
}

std::string origin(const Study& study, const std::string& key) {
  return to_string(study.origins.at(key));
}

}  // namespace

TEST_CASE("the smallest study takes every default") {
  const Study study = read(kSmallStudy);
  CHECK(study.model.name == "gpt-tiny");
  CHECK(study.cluster.num_devices == 16);
  CHECK(study.parallel.data == 2);
  CHECK(study.parallel.placement == "DPCET");
  CHECK(study.model.pad_vocab_to == 1002);
  CHECK(study.num_microbatches() == 16);
  CHECK(study.training.dropout == 0.1);
  CHECK(study.training.grad_dtype == DType::kFp32);
  CHECK(study.training.kernels == KernelSet::kCuda);
  CHECK(study.training.flash_attention == FlashAttention::kOn);
  CHECK(study.schedule.method == "1f1b");
  CHECK(study.recompute.method == RecomputeConfig::Method::kNone);
  CHECK(study.fidelity == "fluid");
  CHECK(study.warnings.empty());
}

TEST_CASE("names of words, presets and frameworks are found however they are spelt") {
  const Study study = read(
      "model: GPT_Tiny\ncluster: {preset: BOX, nodes: 1}\nparallel: {tensor: 2, pipeline: 4}\n"
      "training: {global_batch: 8, precision: FP16}\nschedule: ZB_H1\nframework: Megatron_LM\n");
  CHECK(study.model.name == "gpt-tiny");
  CHECK(study.cluster.name == "box");
  CHECK(study.training.precision == DType::kFp16);
  CHECK(study.schedule.method == "zb-h1");
  CHECK(study.framework.name == "megatron-lm");
}

TEST_CASE("each value says where it came from") {
  const Study study = read(kSmallStudy, {"training.microbatch=2"});
  CHECK(origin(study, "parallel.pipeline") == "from study.yaml:3:33");
  CHECK(origin(study, "training.microbatch") == "--set training.microbatch=2");
  CHECK(origin(study, "model.layers") == "preset gpt-tiny");
  CHECK(origin(study, "cluster.nodes") == "from study.yaml:2:31");
  CHECK(origin(study, "cluster.devices") == "derived: nodes x devices_per_node");
  CHECK(origin(study, "parallel.data") == "default: devices / (tensor x pipeline x context)");
  CHECK(origin(study, "training.clip_norm") == "default");
  CHECK(origin(study, "training.flash_attention") == "derived: auto: the kernels support it");
}

TEST_CASE("a model in numbers takes its family's habits") {
  const ModelConfig gpt =
      model("{family: gpt, layers: 8, hidden: 512, heads: 8, vocab: 100, seq_len: 64}");
  CHECK(gpt.kv_heads == 8);
  CHECK(gpt.head_dim == 64);
  CHECK(gpt.ffn == 2048);
  CHECK(gpt.max_positions == 64);
  CHECK(gpt.activation == Activation::kGelu);

  const ModelConfig llama = model(
      "{family: llama, layers: 8, hidden: 4096, heads: 32, kv_heads: 8, vocab: 100, seq_len: 64, "
      "qkv_bias: true}");
  CHECK(llama.ffn == 11008);  // as Llama-1 and Llama-2 7B
  CHECK(llama.activation == Activation::kSwiglu);
  CHECK_FALSE(llama.linear_bias);
  CHECK(llama.qkv_bias);
  CHECK_FALSE(llama.tied_embeddings);

  const ModelConfig t5 =
      model("{family: t5, layers: 6, hidden: 512, heads: 8, vocab: 100, seq_len: 64}");
  CHECK(t5.decoder_layers == 6);
  CHECK(t5.decoder_seq_len == 64);
  CHECK(t5.relative_buckets == 32);
  CHECK(t5.max_positions == 0);

  const ModelConfig bert =
      model("{family: bert, layers: 6, hidden: 512, heads: 8, vocab: 100, seq_len: 64}");
  CHECK(bert.max_positions == 512);
  CHECK(bert.token_types == 2);
}

TEST_CASE("what followed in a preset follows the numbers that replace it") {
  const Study study = read("model: {preset: llama-tiny, hidden: 1024, seq_len: 64}\n" + kRest);
  CHECK(study.model.head_dim == 128);  // was hidden / heads
  CHECK(study.model.ffn == 1792);      // was not 8/3 x hidden
  CHECK(study.model.kv_heads == 2);    // was not heads
  CHECK(origin(study, "model.head_dim") == "derived: hidden / heads");
  CHECK(origin(study, "model.ffn") == "preset llama-tiny");
  CHECK(model("{preset: gpt-tiny, seq_len: 64}").max_positions == 64);
}

TEST_CASE("paths are relative to the study") {
  const Study study = read_study_text(
      "model: hf/config.json\ncluster: ../topologies/x.yaml\n"
      "training: {global_batch: 64}\n",
      "configs/study.yaml", {}, fixture_resolvers());
  CHECK(study.model.name == "configs/hf/config.json");
  CHECK(study.cluster.name == "topologies/x.yaml");
  CHECK(origin(study, "model.layers") == "from hf/config.json");
}

TEST_CASE("a case takes the first uniform partition that works") {
  const std::string text =
      "model: {preset: gpt-tiny, layers: LAYERS}\n"
      "cluster: {gpu: a100, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n"
      "parallel: {pipeline: 4}\n"
      "training: {global_batch: 8}\n";
  const auto partition = [&](const std::string& layers) {
    return read(text, {"model.layers=" + layers}).partition;
  };
  CHECK_FALSE(partition("12").ends);
  CHECK_FALSE(partition("12").uneven);
  CHECK(partition("10").ends);
  CHECK(partition("11").uneven);
}

TEST_CASE("Megatron-LM's version follows from what the run used") {
  const auto version = [](const std::string& device, const std::string& more) {
    const Study study =
        read("model: gpt-tiny\ncluster: {device: " + device + "}\nframework: megatron-lm\n" + more);
    return study.framework.version;
  };
  CHECK(version("a100", "training: {global_batch: 8}") == "2021");
  CHECK(version("a100", "training: {global_batch: 8}\nrecompute: selective") == "2022");
  CHECK(version("a100", "training: {global_batch: 8}\nparallel: {sequence_parallel: true}") ==
        "2022");
  CHECK(version("a100", "training: {global_batch: 8, flash_attention: true}") == "current");
  CHECK(version("h100", "training: {global_batch: 8}") == "current");
}

TEST_CASE("a framework's profile decides placement, gradients and flash attention") {
  const Study old =
      with_training("precision: fp16", "framework: {name: megatron-lm, version: 2021}\n");
  CHECK(old.parallel.placement == "PDCET");
  CHECK(old.training.flash_attention == FlashAttention::kOff);
  CHECK(origin(old, "training.flash_attention") == "derived: auto: megatron-lm 2021 has none");
  CHECK(with_training("precision: fp16", "framework: halfgrad\n").training.grad_dtype ==
        DType::kFp16);
  CHECK(with_training("grad_dtype: bf16", "framework: halfgrad\n").training.grad_dtype ==
        DType::kBf16);
}

TEST_CASE("flash attention is off where no kernel has it") {
  const std::string cpu = "model: gpt-tiny\ncluster: {device: cpu}\n";
  CHECK(read(cpu + "training: {global_batch: 8, precision: fp32}").training.flash_attention ==
        FlashAttention::kOff);
  CHECK(read(cpu + "training: {global_batch: 8, precision: fp32, dropout: 0}")
            .training.flash_attention == FlashAttention::kOn);
  CHECK(read(cpu + "training: {global_batch: 8, precision: fp64}").training.grad_dtype ==
        DType::kFp64);
}

TEST_CASE("placement letters are completed just left of T") {
  const auto placement = [](const std::string& text) {
    return read(kSmallStudy, {"parallel.placement=" + text}).parallel.placement;
  };
  CHECK(placement("DPT") == "DPCET");
  CHECK(placement("PDT") == "PDCET");
  CHECK(placement("spread") == "CETPD");
  CHECK(placement("cluster") == "DPCET");
  CHECK(placement("TD") == "PCETD");
}

TEST_CASE("training keys have short and long forms") {
  CHECK(with_training("lr: 1e-3").training.lr.peak == 1e-3);
  const TrainingConfig training =
      with_training(
          "lr: {peak: 1e-4, schedule: cosine, warmup: 10}, betas: [0.8, 0.9], "
          "bucket_elements: 25e6, loss_scale: 1024, optimizer: sgd")
          .training;
  CHECK(training.lr.schedule == "cosine");
  CHECK(training.lr.warmup == 10);
  CHECK(training.betas == std::array<double, 2>{0.8, 0.9});
  CHECK(training.bucket_elements == 25'000'000);
  CHECK(training.loss_scale == "1024");
  CHECK(training.optimizer == Optimizer::kSgd);
  CHECK(read(kSmallStudy, {"parallel.zero={stage: 1, by: shard}"}).parallel.zero.stage == 1);
  CHECK(read(kSmallStudy, {"partition=[3, 5, 9]"}).partition.cuts ==
        std::vector<StageCut>{{3, ""}, {5, ""}, {9, ""}});
}

TEST_CASE("annotations are skipped, and words without effect warn") {
  const Study study = read(kSmallStudy +
                               "id: x\nsource: y\nconfidence: z\nnote: n\nsuspect: s\nera: e\n"
                               "measured: {iteration_time_s: 1}\n",
                           {"training.compiled=true", "training.async_tp=false"});
  CHECK(study.warnings == std::vector<std::string>{
                              "training.compiled has no effect: no profile says what torch.compile "
                              "changes in trainyard"});
}

TEST_CASE("selective recompute with flash attention warns, and so do idle devices") {
  const Study study = read(kSmallStudy, {"recompute=selective", "parallel.data=1"});
  CHECK(study.warnings ==
        std::vector<std::string>{
            "recompute: selective changes nothing with flash attention, which keeps no scores to "
            "recompute",
            "pp(4) * dp(1) * tp(2) = 8 ranks leave 8 of 16 devices idle"});
}

TEST_CASE("keys that speak of attention warn where the family has none") {
  const std::string text =
      "model: {family: mamba2, layers: 2, hidden: 64, vocab: 90, seq_len: 64}\n"
      "cluster: {preset: box, nodes: 1}\ntraining: {global_batch: 64}\n";
  CHECK(read(text).warnings.empty());
  CHECK(read(text).training.flash_attention == FlashAttention::kOff);
  CHECK(read(text, {"recompute=full", "training.flash_attention=false"}).warnings.empty());
  const Study study = read(text, {"recompute=selective", "training.flash_attention=true"});
  const std::string selective =
      "recompute: selective changes nothing: family mamba2 has no attention, whose scores it "
      "recomputes";
  CHECK(study.warnings ==
        std::vector<std::string>{
            "training.flash_attention is not used: family mamba2 has no attention", selective});
  CHECK(study.training.flash_attention == FlashAttention::kOff);
  CHECK(read(resolved_study_text(study)).warnings == std::vector<std::string>{selective});
}

TEST_CASE("what a study says of drives that nothing lies on warns, once") {
  const std::vector<std::string> drives = {
      "cluster.nvme={read: 7 GB/s, write: 3 GB/s, drives: 4, capacity: 2 TB}"};
  const Study study = read(kSmallStudy, drives);
  CHECK(study.warnings ==
        std::vector<std::string>{"cluster.nvme is not used: nothing lies on drives"});
  CHECK(read(resolved_study_text(study)).warnings.empty());
  std::vector<std::string> used = drives;
  used.emplace_back("parallel.zero={stage: 1, offload: {optimizer: nvme}}");
  CHECK(read(kSmallStudy, used).warnings.empty());
}

TEST_CASE("what a study says of hosts that nothing is offloaded to warns") {
  const std::vector<std::string> hosts = {
      "cluster.host={capacity: 1 TiB, cores: 64, update_rate: 1e9}"};
  const std::vector<std::string> warnings = {
      "cluster.host.capacity is not used: nothing is offloaded",
      "cluster.host.cores is not used: no host updates parameters for its devices",
      "cluster.host.update_rate is not used: no host updates parameters for its devices"};
  const Study study = read(kSmallStudy, hosts);
  CHECK(study.warnings == warnings);
  // What is resolved describes the cluster.
  CHECK(read(resolved_study_text(study)).warnings.empty());
  std::vector<std::string> offloaded = hosts;
  offloaded.emplace_back("parallel.zero={stage: 1, offload: optimizer}");
  CHECK(read(kSmallStudy, offloaded).warnings.empty());
}

TEST_CASE("post-validation says where it finds nothing to look at") {
  // Degrees and clipping may be swept: a warning, no error.
  const auto warning = [](std::vector<std::string> sets) {
    sets.emplace_back("schedule={method: 1f1b, post_validation: true}");
    return read(kSmallStudy, sets).warnings.at(0);
  };
  CHECK(warning({"parallel={tensor: 4, pipeline: 1}"}) ==
        "schedule.post_validation is not used: pipeline is 1, and the one rank has the whole norm "
        "before it updates");
  CHECK(warning({"training.clip_norm=0", "framework=halfgrad"}) ==
        "schedule.post_validation is not used: training.clip_norm is 0, and halfgrad then takes no "
        "norm of the "
        "gradients");
  // fp16 has to look for what is not finite.
  CHECK_THAT(
      warning({"training.clip_norm=0", "framework=halfgrad", "training.precision=fp16"}),
      Catch::StartsWith("schedule.post_validation: times assume that every validation succeeds"));
  CHECK_THAT(
      warning({}),
      Catch::StartsWith("schedule.post_validation: times assume that every validation succeeds"));
}

TEST_CASE("a schedule that the framework does not have is said") {
  const auto warnings = [](const std::string& schedule, const std::string& framework,
                           std::vector<std::string> sets = {}) {
    sets.insert(sets.end(), {"schedule=" + schedule, "framework=" + framework,
                             "training.global_batch=128", "model={preset: gpt-tiny, layers: 16}"});
    return read(kSmallStudy, sets).warnings;
  };
  const std::string megatron = "{name: megatron-lm, version: 2021}";
  for (const std::string schedule : {"zb-1p", "zb-h1", "dualpipe-v", "gpipe"}) {
    CHECK(warnings(schedule, megatron) ==
          std::vector<std::string>{
              "framework megatron-lm 2021 has no schedule " + schedule +
              ", only 1f1b and interleaved: its kernels and waits are taken for those of a "
              "megatron-lm that had it (its source)"});
    CHECK(warnings(schedule, "trainyard").empty());
  }
  CHECK(warnings("1f1b", megatron).empty());
  CHECK(warnings("interleaved", megatron, {"parallel.virtual_stages=2"}).empty());
  CHECK(warnings("gpipe", megatron, {"parallel.pipeline=1", "parallel.tensor=8"})
            .empty());  // one rank has no schedule
}

TEST_CASE("what a switch that is off leaves without effect is said") {
  const auto warnings = [](const std::vector<std::string>& sets) {
    return read(kSmallStudy, sets).warnings;
  };
  CHECK(warnings({"offload={activations: false, horizon: 2}"}) ==
        std::vector<std::string>{
            "offload.horizon is not used: activations is false, and nothing is copied"});
  CHECK(warnings({"parallel.zero={stage: 0, by: parameter}"}) ==
        std::vector<std::string>{"parallel.zero.by is not used: stage 0 divides nothing"});
  CHECK(warnings({"recompute=full", "offload={activations: true, horizon: 2}",
                  "parallel.zero={stage: 1, by: parameter}"})
            .empty());
}

TEST_CASE("keys of training and data that change nothing are said where they are not the default") {
  const auto warnings = [](const std::vector<std::string>& sets) {
    return read(kSmallStudy, sets).warnings;
  };
  using Lines = std::vector<std::string>;
  CHECK(warnings({"training.loss_scale=1024"}) ==
        Lines{"training.loss_scale is not used: only fp16 scales the loss, and the precision is "
              "bf16"});
  CHECK(warnings({"training={global_batch: 16, optimizer: sgd, betas: [0.8, 0.9], eps: 1e-6}"}) ==
        Lines{"training.betas is not used: optimizer sgd keeps no averages of gradients",
              "training.eps is not used: optimizer sgd keeps no averages of gradients"});
  CHECK(warnings({"data={format: u16, shuffle: false}"}) ==
        Lines{"data.format is not used: data.path is generated, and no file is read",
              "data.shuffle is not used: data.path is generated, and no file is read"});
  CHECK(warnings({"training.loss_scale=1024", "training.precision=fp16"}).empty());
  CHECK(warnings({"training.betas=[0.8, 0.9]", "training.eps=1e-6"}).empty());
  CHECK(warnings({"data={format: u16, shuffle: false, path: tokens.bin}"}).empty());
  // study.resolved.yaml says all keys.
  const Study study = read(kSmallStudy, {"training.optimizer=sgd"});
  CHECK(read(resolved_study_text(study)).warnings.empty());
}

TEST_CASE("a number of the model that other families have is said to change nothing") {
  const std::string bert =
      "model: {family: bert, layers: 4, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
      "cluster: box\ntraining: {global_batch: 16}\n";
  CHECK(read(bert, {"model.rope_base=500000"}).warnings ==
        std::vector<std::string>{
            "model.rope_base is not used: it matters to gpt, llama, and the family is bert"});
  CHECK(read(bert, {"model.rope_base=10000"}).warnings.empty());  // the default
  CHECK(read(resolved_study_text(read(bert))).warnings.empty());
  CHECK(read(kLlamaStudy, {"model.rope_base=500000"}).warnings.empty());
}

TEST_CASE("a case inside a list is a study") {
  const YamlNode list = YamlNode::parse(
      "- model: gpt-tiny\n  cluster: box\n"
      "  training: {global_batch: 8}\n"
      "- model: gpt-huge\n  cluster: box\n  training: {global_batch: 8, steps: 0}\n",
      "cases.yaml");
  CHECK(read_study_node(list.items()[0], {}, fixture_resolvers()).parallel.data == 8);
  try {
    read_study_node(list.items()[1], {}, fixture_resolvers());
    FAIL("it has two mistakes");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()) ==
          "cases.yaml:4:10: [1].model: unknown model 'gpt-huge'; known: gpt-tiny and llama-tiny");
    REQUIRE(error.others().size() == 1);
    CHECK(error.others()[0].what ==
          "cases.yaml:6:38: [1].training.steps: expected at least 1, got 0");
  }
}

}  // namespace trainyard::study_reader_test
