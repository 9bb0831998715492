// What a study can say wrong, each with the exact message: its place, the values involved and,
// where one can be computed, a value that would work.
#include <catch2/catch.hpp>
#include <string>

#include "tests/study/study_fixture.h"

namespace trainyard {

namespace {

/// The error of the small study with one option.
std::string set(const std::string& option) { return error_of(kSmallStudy, {option}); }

/// The same with lines after it.
std::string with(const std::string& more) { return error_of(kSmallStudy + more); }

std::string with_cluster(const std::string& block) {
  return error_of("model: gpt-tiny\ntraining: {global_batch: 64}\ncluster: " + block + "\n");
}

std::string with_model(const std::string& block) {
  return error_of("cluster: box\ntraining: {global_batch: 64}\nmodel: " + block + "\n");
}

}  // namespace

TEST_CASE("what is missing or unknown is named") {
  CHECK(error_of("model: gpt-tiny\n") == "study.yaml:1:1: missing required key 'cluster'");
  CHECK(error_of("model: gpt-tiny\ncluster: box\n") ==
        "study.yaml:1:1: training: missing required key 'global_batch'");
  CHECK(error_of("") == "study.yaml:1:1: expected a map, got nothing");
  CHECK(error_of("[]") == "study.yaml:1:1: expected a map, got a list");
  CHECK(with("modle: x\n") ==
        "study.yaml:5:1: modle: unknown key (did you mean model?); this map takes: checkpoint, "
        "cluster, confidence, data, "
        "era, fidelity, framework, id, measured, model, note, offload, parallel, partition, "
        "recompute, schedule, sharding, source, suspect, sweep, training");
  CHECK(set("parallel.tensr=2") ==
        "--set parallel.tensr=2: parallel.tensr: unknown key (did you mean tensor?); this map "
        "takes: context, d2d_buffer, "
        "data, expert, pipeline, placement, scatter_gather, sequence_parallel, tensor, "
        "tensor_method, "
        "tensor_overlap, virtual_stages, zero");
  CHECK(with("parallel: {tensor: 1}\n") == "study.yaml:5:1: parallel: appears twice in this map");
  CHECK(with("schedule: fastest\n") ==
        "study.yaml:5:11: schedule: unknown schedule 'fastest'; this version has gpipe, 1f1b, "
        "interleaved, zb-h1, zb-1p, zb-2p, opportunistic, interleaved-zb1p, zb-v, dualpipe-v, scp, "
        "pre-recompute-1f1b, "
        "last-no-recompute-1f1b, pre-recompute and last-no-recompute");
  CHECK(with("framework: jax\n") ==
        "study.yaml:5:12: framework.name: no software profile is named 'jax'; known: halfgrad, "
        "megatron-lm and trainyard");
}

TEST_CASE("the contract's features that this version lacks are refused at their line") {
  CHECK(errors_of(kSmallStudy + "partition: {method: smp, memory_weight: 0.8}\n").front() ==
        "study.yaml:5:21: partition.method: method 'smp' is not in this version, which has "
        "uniform");
  CHECK(with("recompute: {method: rotor}\n") ==
        "study.yaml:5:21: recompute.method: recompute 'rotor' is not in this version, which has "
        "none, selective, full, stage-aware and group");
  CHECK(set("parallel.zero=2") ==
        "--set parallel.zero=2: parallel.zero: ZeRO 2 is not in this version, which has 0 and 1");
  CHECK(set("parallel.context=2") ==
        "--set parallel.context=2: parallel.context: context parallelism is not in this version, "
        "which has tensor, pipeline and data parallelism; write 1");
  CHECK(set("parallel.tensor_method=atp") ==
        "--set parallel.tensor_method=atp: parallel.tensor_method: tensor_method 'atp' is not in "
        "this version, which has megatron");
  CHECK(
      set("parallel.tensor_overlap=some") ==
      "--set parallel.tensor_overlap=some: parallel.tensor_overlap: unknown tensor_overlap 'some'; "
      "this version has none, block and across-blocks");
  CHECK(set("training.precision=fp8") ==
        "--set training.precision=fp8: training.precision: precision 'fp8' is not in this version, "
        "which has fp32, tf32, fp16, bf16 and fp64");
  CHECK(
      set("training.cpu_offload=true") ==
      "--set training.cpu_offload=true: training.cpu_offload: offloading to the CPU is not in this "
      "version; write false");
}

TEST_CASE("a pipeline that does not divide the layers names the nearest that do") {
  const std::string study =
      "model: {preset: gpt-tiny, layers: 96}\n"
      "cluster: {preset: box, nodes: 128}\n"
      "parallel: {tensor: 8,\n"
      "           pipeline: 8, data: 16}\n"
      "training: {global_batch: 1536}\n";
  CHECK(error_of(study) == "no error");
  CHECK(error_of(study, {"parallel.pipeline=7"}) ==
        "study.yaml:4:22: parallel.pipeline: 7 stages do not divide 96 layers; 6 and 8 do (set by "
        "--set parallel.pipeline=7)");
  CHECK(error_of(study, {"partition={method: uniform, ends: layers}"}) ==
        "study.yaml:4:22: parallel.pipeline: 8 stages do not divide 98 layers, embedding and head "
        "counted; 7 and 14 do");
  CHECK(error_of(study, {"schedule=interleaved", "parallel.virtual_stages=5"}) ==
        "study.yaml:4:22: parallel.pipeline: 8 ranks of 5 virtual stages = 40 stages do not divide "
        "96 layers; partition: {method: uniform, uneven: true} allows it");
  CHECK(
      error_of(study, {"partition={method: uniform, uneven: true}", "parallel.pipeline=90"}) ==
      "study.yaml:4:22: parallel.pipeline: 90 stages of 2 layers leave none of 96 for the last; 48 "
      "stages would fill (set by --set parallel.pipeline=90)");
}

TEST_CASE("cuts agree with the stages and the layers") {
  CHECK(
      with("partition: [3, 6]\n") ==
      "study.yaml:5:12: partition: 2 cuts make 3 stages, but pipeline x virtual_stages = 4; write "
      "3 cuts");
  CHECK(
      error_of(kSmallStudy + "partition: [4]\n", {"parallel.pipeline=1"}) ==
      "study.yaml:5:12: partition: 1 cut makes 2 stages, but pipeline x virtual_stages = 1; write "
      "partition: uniform");
  CHECK(
      error_of(kSmallStudy + "partition: []\n", {"parallel.pipeline=2"}) ==
      "study.yaml:5:12: partition: 0 cuts make 1 stage, but pipeline x virtual_stages = 2; write 1 "
      "cut");
  CHECK(error_of(kSmallStudy + "partition: []\n", {"parallel.pipeline=1"}) == "no error");
  CHECK(with("partition: [3, 6, 12]\n") ==
        "study.yaml:5:12: partition: the last stage would begin at layer 12, but layers count from "
        "0 to 11");
  CHECK(with("partition: [3, 3, 6]\n") ==
        "study.yaml:5:16: partition[1]: expected at least 4, got 3");
}

TEST_CASE("ranks fit the devices") {
  CHECK(
      set("parallel.data=3") ==
      "study.yaml:3:11: parallel: pp(4) * dp(3) * tp(2) = 24 ranks, but cluster at study.yaml:2:10 "
      "has 16 devices; 3 nodes have room");
  CHECK(set("cluster.nodes=4") == "no error");
  CHECK_THAT(set("cluster={preset: local, ranks: 4}"),
             Catch::Contains("8 ranks, but cluster at") &&
                 Catch::Contains(" has 4 devices; {preset: local, ranks: 8} has room"));
  CHECK(
      error_of(kSmallStudy, {"cluster.nodes=null", "cluster.devices=12"}) ==
      "study.yaml:3:11: parallel: pp(4) * tp(2) = 8 ranks do not divide the 12 devices of cluster "
      "at study.yaml:2:10; data: 1 uses 8 of them");
  CHECK(
      error_of(kSmallStudy, {"parallel.pipeline=12"}) ==
      "study.yaml:3:11: parallel: pp(12) * tp(2) = 24 ranks, but cluster at study.yaml:2:10 has 16 "
      "devices; 3 nodes have room");
  CHECK(error_of(kSmallStudy, {"parallel.data=1000000"}) ==
        "study.yaml:3:11: parallel: pp(4) * dp(1000000) * tp(2) is more than 2^20 ranks");
}

TEST_CASE("tensor parallelism divides what it splits") {
  CHECK(set("parallel.tensor=3") ==
        "study.yaml:3:20: parallel.tensor: 3 ranks do not divide heads 8; 2 and 4 do (set by --set "
        "parallel.tensor=3)");
  CHECK(error_of(kSmallStudy, {"model=llama-tiny", "parallel.tensor=4"}) ==
        "study.yaml:3:20: parallel.tensor: 4 ranks do not divide kv_heads 2; 2 does (set by --set "
        "parallel.tensor=4)");
  CHECK(error_of(kSmallStudy,
                 {"model={preset: gpt-tiny, seq_len: 255}", "parallel.sequence_parallel=true"}) ==
        "study.yaml:3:20: parallel.tensor: 2 ranks do not divide seq_len 255; 1 does");
  CHECK(error_of(kSmallStudy, {"model={preset: gpt-tiny, pad_vocab_to: 1000}"}) ==
        "study.yaml:1:8: model.pad_vocab_to: 1000 is not a multiple of tensor(2) that holds vocab "
        "1001; 1002 is (set by --set model={preset: gpt-tiny, pad_vocab_to: 1000})");
}

TEST_CASE("the batch divides into microbatches and rounds") {
  CHECK(set("training.global_batch=33") ==
        "study.yaml:4:26: training.global_batch: 33 is not a multiple of data(2) * microbatch(1) = "
        "2; 32 and 34 are (set by --set training.global_batch=33)");
  CHECK(
      error_of(kSmallStudy, {"training.global_batch=1"}) ==
      "study.yaml:4:26: training.global_batch: 1 is not a multiple of data(2) * microbatch(1) = 2; "
      "2 is (set by --set training.global_batch=1)");
  CHECK(
      set("training.global_batch=1e6") ==
      "study.yaml:4:26: training.global_batch: 1000000 sequences over data(2) * microbatch(1) are "
      "500000 microbatches; at most 100000 are allowed (set by --set training.global_batch=1e6)");
  // 9 microbatches on 4 ranks are 2 rounds, which 9 does not divide into; 8 and 10 do.
  CHECK(error_of(kSmallStudy, {"schedule=interleaved", "parallel.virtual_stages=3",
                               "training.global_batch=18"}) ==
        "study.yaml:4:26: training.global_batch: 9 microbatches do not divide into the 2 rounds of "
        "the interleaved schedule on 4 ranks; global_batch 16 and 20 do (set by --set "
        "training.global_batch=18)");
}

TEST_CASE("virtual stages and the interleaved schedule need each other") {
  CHECK(with("schedule: 1f1b\n") == "no error");
  CHECK(error_of(kSmallStudy + "schedule: 1f1b\n", {"parallel.virtual_stages=3"}) ==
        "study.yaml:5:11: schedule: 1f1b has one stage per rank, but parallel.virtual_stages is 3; "
        "interleaved takes them");
  CHECK(
      with("schedule: interleaved\n") ==
      "study.yaml:3:11: parallel.virtual_stages: interleaved needs at least 2 stages per rank, got "
      "1; with 1, schedule: 1f1b is the same");
}

TEST_CASE("schedules say what they need of the pipeline, the batch and recompute") {
  // 12 layers; 4 pipeline ranks x 2 replicas, so 32 sequences are 16 microbatches.
  const auto at_schedule = [](const std::string& line) { return "study.yaml:5:11: " + line; };
  CHECK(with("schedule: zb-h1\n") == "no error");
  CHECK(error_of(kSmallStudy + "schedule: zb-h1\n", {"parallel.virtual_stages=3"}) ==
        at_schedule("schedule: zb-h1 has one stage per rank, but parallel.virtual_stages is 3; "
                    "interleaved takes them"));
  CHECK(with("schedule: interleaved-zb1p\n") ==
        "study.yaml:3:11: parallel.virtual_stages: interleaved-zb1p needs at least 2 stages per "
        "rank, got 1; with 1, "
        "schedule: zb-h1 is the same");
  CHECK(error_of(kSmallStudy + "schedule: zb-v\n", {"parallel.virtual_stages=3"}) ==
        "--set parallel.virtual_stages=3: parallel.virtual_stages: zb-v has exactly 2 stages per "
        "rank, got 3; write 2, "
        "or leave this key out");
  // Two stages on each of 4 ranks do not divide 12 layers; on 2 and 3 ranks they do.
  CHECK(with("schedule: zb-v\n")
            .find("4 ranks of 2 virtual stages = 8 stages do not divide 12 layers") !=
        std::string::npos);
  CHECK(error_of(kSmallStudy + "schedule: zb-v\n", {"parallel.pipeline=2"}) == "no error");
  CHECK(error_of(kSmallStudy + "schedule: dualpipe-v\n",
                 {"parallel.pipeline=2", "training.global_batch=12"}) ==
        "study.yaml:4:26: training.global_batch: dualpipe-v needs at least 2 microbatches per "
        "pipeline rank: 4 of them, "
        "not 3; global_batch 16 does (set by --set training.global_batch=12)");
  CHECK(with("schedule: scp\n") ==
        at_schedule(
            "schedule: scp says when to recompute, but recompute is none; write recompute: full"));
  CHECK(with("schedule: scp\nrecompute: full\n") == "no error");
  CHECK(with("schedule: pre-recompute\nrecompute: selective\n") == "no error");
  CHECK(error_of(kSmallStudy + "schedule: last-no-recompute\nrecompute: full\n",
                 {"training.global_batch=6"}) ==
        "study.yaml:4:26: training.global_batch: last-no-recompute-1f1b needs at least as many "
        "microbatches as stages, "
        "and 4: 4 of them, not 3; global_batch 8 does (set by --set training.global_batch=6)");
  CHECK(error_of(kSmallStudy + "schedule: scp\nrecompute: full\n", {"parallel.pipeline=1"}) ==
        "study.yaml:3:33: parallel.pipeline: scp needs at least 2 pipeline ranks, got 1; with 1, "
        "schedule: 1f1b is the "
        "same (set by --set parallel.pipeline=1)");
}

TEST_CASE("recompute says what its methods take and need") {
  CHECK(with("recompute: stage-aware\n") == "no error");
  CHECK(with("recompute: {method: stage-aware, first: auto}\n") == "no error");
  CHECK(with("recompute: {method: group, strategy: group_12}\n") == "no error");
  CHECK(with("recompute: {method: stage-aware, first: 1.5}\n") ==
        "study.yaml:5:41: recompute.first: expected auto or a number from 0 to 1, got 1.5");
  CHECK(with("recompute: {method: stage-aware, first: half}\n") ==
        "study.yaml:5:41: recompute.first: expected auto or a number from 0 to 1, got 'half'");
  CHECK(
      with("recompute: {method: full, first: 0.5}\n") ==
      "study.yaml:5:34: recompute.first: is for recompute stage-aware, not for full; leave it out");
  CHECK(with("recompute: {method: stage-aware, strategy: contiguous, unit: sublayer}\n") ==
        "no error");
  CHECK(with("recompute: {method: selective, unit: sublayer}\n") ==
        "study.yaml:5:38: recompute.unit: is for recompute full, stage-aware and group, not for "
        "selective; leave it out");
  CHECK(
      with("recompute: {method: full, unit: block}\n") ==
      "study.yaml:5:33: recompute.unit: unknown unit 'block'; this version has layer and sublayer");
  CHECK(with("recompute: {method: full, strategy: each}\n") ==
        "study.yaml:5:37: recompute.strategy: is for recompute stage-aware and group, not for "
        "full; leave "
        "it out");
  for (const std::string strategy : {"group", "group_", "group_0", "group_-1", "group_2x", "all"}) {
    CHECK(with("recompute: {method: group, strategy: " + strategy + "}\n") ==
          "study.yaml:5:38: recompute.strategy: expected each, contiguous or group_2, group_3, "
          "..., got '" +
              strategy + "'");
  }
  CHECK(error_of(kSmallStudy + "recompute: stage-aware\n", {"parallel.pipeline=1"}) ==
        "study.yaml:3:33: parallel.pipeline: stage-aware recompute needs at least 2 pipeline "
        "ranks, got 1; with 1, "
        "recompute: none keeps as much (set by --set parallel.pipeline=1)");
  // Each of the two searches would need what the other finds.
  CHECK(with("schedule: zb-1p\nrecompute: stage-aware\n") ==
        "study.yaml:6:12: recompute: auto is chosen by the memory of the schedule, and zb-1p is "
        "searched for the "
        "durations of the stages, which this changes; write a share from 0 to 1");
  CHECK(with("schedule: zb-1p\nrecompute: {method: stage-aware, first: 0.25}\n") == "no error");
}

TEST_CASE("a key that another one leaves without effect is refused") {
  const std::string no_copies =
      "offload.horizon: says how many layers ahead copies come back, and nothing is copied; write "
      "activations: true, "
      "or leave this key out";
  CHECK(with("offload: {horizon: 2}\n") == "study.yaml:5:20: " + no_copies);
  CHECK(with("offload: {horizon: 4, activations: false}\n") == "no error");  // a sweep may vary it
  CHECK(set("offload.horizon=2") == "--set offload.horizon=2: " + no_copies);
  CHECK(with("recompute: full\noffload: {horizon: 2, activations: true}\n") == "no error");
  CHECK(with("offload: {activations: false}\n") == "no error");

  for (const std::string by : {"shard", "parameter"}) {
    CHECK(set("parallel.zero={stage: 0, by: " + by + "}") == "no error");
    CHECK(set("parallel.zero={stage: 1, by: " + by + "}") == "no error");
  }

  CHECK(with("schedule: {method: gpipe, mode: dynamic}\n") == "no error");
  for (const std::string mode : {"static", "fast"}) {
    CHECK(with("schedule: {method: gpipe, mode: " + mode + "}\n") ==
          "study.yaml:5:33: schedule.mode: " + mode +
              " is for schedules zb-1p, zb-2p and opportunistic, whose order depends on durations, "
              "not for gpipe; "
              "leave it out");
    CHECK(with("schedule: {method: zb-1p, mode: " + mode + "}\n") == "no error");
  }
}

TEST_CASE("keys of text and of images are told apart") {
  CHECK(with_model("{preset: gpt-tiny, depth: 2}") ==
        "study.yaml:3:34: model.depth: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: resnet, depth: 50, heads: 4}") ==
        "study.yaml:3:43: model.heads: means nothing to family resnet; leave this key out");
  CHECK(with_model("{family: vit, layers: 2, hidden: 64, heads: 2, seq_len: 5}") ==
        "study.yaml:3:64: model.seq_len: means nothing to family vit; leave this key out");
  CHECK(with_model("{family: vit, layers: 2, hidden: 64, heads: 2, batch_norm: replica}") ==
        "study.yaml:3:67: model.batch_norm: means nothing to family vit; leave this key out");
  CHECK(with_model("{family: swin, layers: 8, hidden: 64, heads: 2, ffn: 128}") ==
        "study.yaml:3:61: model.ffn: means nothing to family swin; leave this key out");
  CHECK(with_model("{family: unet, depth: 2, hidden: 16, layers: 5}") ==
        "study.yaml:3:53: model.layers: means nothing to family unet; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9, heads: 2}") ==
        "study.yaml:3:71: model.heads: means nothing to family ncf; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9, image_size: 2}") ==
        "study.yaml:3:76: model.image_size: means nothing to family ncf; leave this key out");
  CHECK(with_model("{preset: gpt-tiny, users: 2}") ==
        "study.yaml:3:34: model.users: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9}") ==
        "study.yaml:3:8: model: missing required key 'items'");
  const std::string mamba2 = "{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 8";
  CHECK(with_model(mamba2 + ", heads: 2}") ==
        "study.yaml:3:77: model.heads: means nothing to family mamba2; leave this key out");
  CHECK(with_model(mamba2 + ", attention_window: 4}") ==
        "study.yaml:3:88: model.attention_window: means nothing to family mamba2; leave this key "
        "out");
  CHECK(with_model("{preset: gpt-tiny, state_size: 2}") ==
        "study.yaml:3:39: model.state_size: means nothing to family gpt; leave this key out");
  const std::string clip =
      "{family: clip, layers: 2, hidden: 64, heads: 2, vocab: 9, seq_len: 8, image_layers: 2, "
      "image_hidden: 64, image_heads: 4, projection_dim: 32";
  CHECK(with_model(clip + ", contrast: 4, classes: 5}") ==
        "study.yaml:3:171: model.classes: means nothing to family clip; leave this key out");
  CHECK(with_model(clip + ", contrast: 4, ffn: 5}") ==
        "study.yaml:3:167: model.ffn: means nothing to family clip; leave this key out");
  CHECK(with_model(clip + "}") == "study.yaml:3:8: model: missing required key 'contrast'");
  CHECK(with_model(clip + ", contrast: 1}") ==
        "study.yaml:3:159: model.contrast: expected at least 2, got 1");
  CHECK(with_model("{preset: gpt-tiny, image_layers: 2}") ==
        "study.yaml:3:41: model.image_layers: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: densenet}") == "study.yaml:3:8: model: missing required key 'depth'");
}

TEST_CASE("what a family of images does not split is refused") {
  const auto split = [](const std::string& model, const std::string& parallel) {
    return error_of("model: " + model + "\ncluster: {preset: box, nodes: 1}\nparallel: {" +
                    parallel + "}\ntraining: {global_batch: 64, microbatch: 2}\n");
  };
  const std::string swin = "{family: swin, layers: 8, hidden: 64, heads: 2}";
  CHECK(split(swin, "tensor: 2") == "no error");
  CHECK(split(swin, "tensor: 2, sequence_parallel: true") ==
        "study.yaml:3:42: parallel.sequence_parallel: between blocks of family swin lie images, of "
        "which windows are cut, no sequences; write false");
  CHECK(split(swin, "tensor: 2, tensor_overlap: block") ==
        "study.yaml:3:39: parallel.tensor_overlap: block halves samples, which are the first dim "
        "of a tensor; in family swin they are not everywhere: write none");
  CHECK(split("{family: unet, depth: 2, hidden: 16}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: tensor parallelism splits no operator of family unet: "
        "all ranks would do the same; write 1, or say a sharding");
  CHECK(split("{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 8}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: in family mamba2 one product makes what heads have for "
        "themselves and what all of them share, and a norm is over all heads: tensor parallelism "
        "does not split it; write 1, or say a sharding");
  CHECK(split("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: tensor parallelism splits no operator of family ncf: "
        "all ranks would do the same; write 1, or say a sharding");
}

TEST_CASE("microbatches are whole groups of what is told apart") {
  const auto clip = [](const std::string& cluster, const std::string& training) {
    return error_of(
        "model: {family: clip, layers: 2, hidden: 64, heads: 2, vocab: 9, seq_len: 8, "
        "image_layers: 2, image_hidden: 64, image_heads: 4, projection_dim: 32, contrast: 4}\n" +
        cluster + "\ntraining: {" + training + "}\n");
  };
  const std::string box = "cluster: {preset: box, nodes: 1}";
  CHECK(clip(box, "global_batch: 64, microbatch: 8") == "no error");
  CHECK(clip(box, "global_batch: 48, microbatch: 6") ==
        "study.yaml:3:42: training.microbatch: 6 samples are no groups of 4 (model.contrast); a "
        "multiple of 4 is");
  CHECK(clip(box, "global_batch: 48, microbatch: [4, 2]") ==
        "study.yaml:3:42: training.microbatch: 2 samples are no groups of 4 (model.contrast); a "
        "multiple of 4 is");
  CHECK(clip(box + "\npartition: {cuts: [1], replicas: [2, 6]}",
             "global_batch: 64, microbatch: 16") ==
        "study.yaml:4:42: training.microbatch: 16 samples over 6 replicas are no groups of 4 "
        "(model.contrast); a multiple of 24 is");
  CHECK(clip(box + "\nparallel: {tensor: 4}", "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:20: parallel.tensor: 4 ranks do not divide heads 2; 2 does");
  CHECK(clip(box + "\nparallel: {tensor: 2, sequence_parallel: true}",
             "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:42: parallel.sequence_parallel: texts and images of family clip are "
        "sequences of different lengths, and an image has a class token beside its patches; write "
        "false");
  CHECK(clip(box + "\nparallel: {tensor: 2, tensor_overlap: block}",
             "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:39: parallel.tensor_overlap: block halves samples, which are the first dim "
        "of a tensor; in family clip they are not everywhere: write none");
}

TEST_CASE("a model's numbers go together") {
  CHECK(
      with_model("{family: gpt, layers: 2, hidden: 100, heads: 3, vocab: 9, seq_len: 8}") ==
      "study.yaml:3:53: model.heads: 3 heads do not divide hidden 100; say model.head_dim, or take "
      "a number of heads that does");
  CHECK(with_model("{preset: gpt-tiny, family: llama}") ==
        "study.yaml:3:35: model.family: the preset's family is gpt; leave this key out");
  CHECK(
      with_model("{preset: gpt-tiny, decoder_layers: 2}") ==
      "study.yaml:3:43: model.decoder_layers: only family t5 has a decoder of its own; leave this "
      "key out");
  CHECK(with_model("{preset: gpt-tiny, seq_len: 512, max_positions: 256}") ==
        "study.yaml:3:36: model.seq_len: 512 is longer than the 256 positions of the model; say "
        "model.max_positions: 512 to enlarge their table");
  CHECK(with_model("{preset: gpt-tiny, position_offset: 2}") == "no error");  // a table of 258
  CHECK(with_model("{preset: gpt-tiny, position_offset: 2, max_positions: 256}") ==
        "study.yaml:3:17: model.seq_len: 256 from 2 on is longer than the 256 positions of the "
        "model; say model.max_positions: 258 to enlarge their table");
  CHECK(with_model("{family: gpt, layers: 100001, hidden: 64, heads: 1, vocab: 9, seq_len: 8}") ==
        "study.yaml:3:30: model.layers: expected at most 100000, got 100001");
  CHECK(with_model("{preset: gpt-tiny, hidden: 2e9, head_dim: 64}") ==
        "study.yaml:3:35: model.hidden: the embedding table would have pad_vocab_to(1001) * "
        "hidden(2000000000) elements, "
        "more than 2^40");
  CHECK(with_model("{family: ncf, layers: 20, hidden: 1000, users: 1e6, items: 10}") ==
        "study.yaml:3:55: model.users: the tower's table would have users(1000000) * 1048576 * "
        "hidden(1000) elements, more than 2^40");
  CHECK(with_model("{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 1048576, "
                   "chunk_size: 1}") ==
        "study.yaml:2:11: training.microbatch: the decay of chunks would have 3 * 1048577 * "
        "1048577 * "
        "microbatch(1) elements, more than 2^40");
}

TEST_CASE("devices, links and kernels exist") {
  CHECK(with_cluster("{device: a101}") ==
        "study.yaml:3:19: cluster.device: no hardware profile is named 'a101' (did you mean "
        "a100?); known: a100, cpu and "
        "h100");
  CHECK(
      with_cluster("{nodes: 4}") ==
      "study.yaml:3:10: cluster: expected one of: preset (dgx-a100-80g, ...), device (written out "
      "in place), gpu (a case)");
  CHECK(
      with_cluster("{preset: lone, nodes: 4}") ==
      "study.yaml:3:32: cluster.nodes: 4 nodes but no network between them; say inter, or take one "
      "node");
  CHECK(with_cluster("{preset: box, nodes: 4, devices: 16}") ==
        "study.yaml:3:43: cluster.devices: 16 devices do not need exactly 4 nodes of 8; 2 do");
  CHECK(with_cluster("{device: a100, nodes: 2}") ==
        "study.yaml:3:10: cluster: missing required key 'inter'");
  CHECK(
      with_cluster("{device: a100, devices_per_node: 2, intra: {kind: nvlink, bandwidth: 300}}") ==
      "study.yaml:3:79: cluster.intra.bandwidth: '300' has no unit; write 300 GB/s or 300 Gbit/s");
  CHECK(with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: pcie}") ==
        "study.yaml:3:10: cluster: does not say intra_gb_per_s, and pcie has no usual bandwidth");
  CHECK(with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: string}") ==
        "study.yaml:3:56: cluster.intra: unknown kind of link 'string'; this version has nvswitch, "
        "nvlink, nvlink-bridge, nvlink-cube-mesh, pcie, pcie-switch, pcie-host, loopback, "
        "nvlink-network, "
        "infiniband, infiniband-edr, infiniband-hdr, infiniband-ndr, roce, ethernet, efa, "
        "omni-path and none");
  CHECK(
      with_cluster("{device: a100, devices_per_node: 2, intra: {kind: rope, bandwidth: 1 GB/s}}") ==
      "study.yaml:3:60: cluster.intra.kind: unknown kind 'rope' (did you mean roce?); this version "
      "has nvswitch, "
      "nvlink, nvlink-bridge, nvlink-cube-mesh, pcie, pcie-switch, pcie-host, loopback, "
      "nvlink-network, "
      "infiniband, infiniband-edr, infiniband-hdr, infiniband-ndr, roce, ethernet, efa, omni-path "
      "and none");
  CHECK(
      with_cluster("{gpu: a100, gpus: 2, gpus_per_node: 2, intra: nvlink-bridge}") ==
      "study.yaml:3:56: cluster.intra: no curves for links of kind 'nvlink-bridge' between devices "
      "a100; known: ethernet, infiniband, nvswitch, pcie and roce");
  const std::string box = "{preset: box, nodes: 4, ";
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [2, 2]}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'link'");
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [3], link: 1 GB/s}}") ==
        "study.yaml:3:68: cluster.fabric.dimensions: expected the nodes along 2 or 3 dimensions, "
        "such as [4, 4, 2]");
  CHECK(with_cluster(box + "fabric: {kind: torus, dimensions: [3, 1], link: 1 GB/s}}") ==
        "study.yaml:3:42: cluster.fabric: a torus of 3 x 1 has places for 3 nodes, not 4");
  CHECK(with_cluster(box + "fabric: {kind: torus, oversubscription: 2}}") ==
        "study.yaml:3:74: cluster.fabric.oversubscription: a fabric of kind torus has no "
        "oversubscription; it takes "
        "dimensions, link");
  CHECK(with_cluster(box + "fabric: {kind: dragonfly, leaf: 1 nodes, group: 2, link: 1 GB/s}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'global_link'");
  CHECK(with_cluster(box + "fabric: {kind: fat-tree, pod_oversubscription: 2}}") ==
        "study.yaml:3:42: cluster.fabric: missing required key 'pod'");
  CHECK(with_cluster(box + "nvlink_domain: 12}") ==
        "study.yaml:3:49: cluster.nvlink_domain: expected a multiple of the 8 devices of a node, "
        "got 12");
  CHECK(with_cluster(box + "p2p: off}") ==
        "study.yaml:3:39: cluster.p2p: links of kind nvswitch are peer access; p2p: off goes with "
        "intra: pcie");
  CHECK(with_cluster("{device: a100, devices_per_node: 2, p2p: off, intra: {kind: pcie, bandwidth: "
                     "30 GB/s}}") ==
        "study.yaml:3:51: cluster.p2p: devices without peer access send through the host's memory, "
        "whose bandwidth is not "
        "said; write host: {memory: 100 GB/s}, of one socket");
  CHECK(with_cluster(box + "host: {sockets: 3}}") ==
        "study.yaml:3:50: cluster.host.sockets: expected a divisor of the 8 devices of a node");
  CHECK(with_cluster(box + "collectives: {all_reduce: nvls}}") ==
        "study.yaml:3:60: cluster.collectives.all_reduce: links of kind nvswitch on a100 do not "
        "add up in their switches; "
        "NVSwitch on Hopper and Blackwell does");
  CHECK(with_cluster("{gpu: a101, gpus: 2, gpus_per_node: 2, intra: nvswitch}") ==
        "study.yaml:3:16: cluster.gpu: no hardware profile is named 'a101' (did you mean a100?); "
        "known: a100, cpu and "
        "h100");
  CHECK(with_cluster("{preset: box, speed: {8: 0.5}}") ==
        "study.yaml:3:35: cluster.speed.8: expected a device from 0 to 7, got '8'");
  CHECK(
      with_cluster("{preset: box, speed: {0: 0}}") ==
      "study.yaml:3:35: cluster.speed.0: expected a factor on the compute rate, more than 0 and at "
      "most 1000, got 0");
  CHECK(
      set("training.precision=fp64") ==
      "--set training.precision=fp64: training.precision: a100 has no fp64; it has fp32, fp16 and "
      "bf16");
  CHECK(
      error_of("model: gpt-tiny\ncluster: {device: cpu}\n"
               "training: {global_batch: 8, precision: fp32, flash_attention: true}\n") ==
      "study.yaml:3:63: training.flash_attention: the CPU's flash kernel has no attention dropout; "
      "write auto or false");
  const auto with_flash = [&](const std::string& keys) {
    return error_of("model: {preset: gpt-tiny, " + keys + "}\ncluster: box\n" +
                    "training: {global_batch: 8, dropout: 0, flash_attention: true}\n");
  };
  CHECK(with_flash("attention_window: 64") == "no error");
  CHECK(with_flash("score_cap: 50") ==
        "study.yaml:3:58: training.flash_attention: no flash kernel of this version caps scores; "
        "write auto or false");
  CHECK(with_flash("positions: alibi") ==
        "study.yaml:3:58: training.flash_attention: no flash kernel of this version takes ALiBi's "
        "distances; write auto or false");
}

TEST_CASE("a file that a study names and that cannot be read is wrong at the study's line") {
  CHECK(with_model("missing.json") == "study.yaml:3:8: model: missing.json: cannot be read");
  CHECK(with_model("{preset: missing.json, layers: 4}") ==
        "study.yaml:3:17: model.preset: missing.json: cannot be read");
  CHECK(with_cluster("missing.yaml") ==
        "study.yaml:3:10: cluster: missing.yaml: cannot open: No such file or directory");
  CHECK(with_cluster("{preset: missing.yaml, nodes: 2}") ==
        "study.yaml:3:19: cluster.preset: missing.yaml: cannot open: No such file or directory");
  CHECK(with_model("broken.json") == "broken.json:3:7: n_head: expected an integer");
}

TEST_CASE("where a preset is named, a file is one of its kind") {
  CHECK(with_cluster("config.json") ==
        "study.yaml:3:10: cluster: a file of a cluster ends in .yaml, got 'config.json'");
  CHECK(
      with_cluster("{preset: dir/config.json, nodes: 2}") ==
      "study.yaml:3:19: cluster.preset: a file of a cluster ends in .yaml, got 'dir/config.json'");
  CHECK(with_cluster("{preset: model.onnx}") ==
        "study.yaml:3:19: cluster.preset: a file of a cluster ends in .yaml, got 'model.onnx'");
  CHECK(with_model("dir/cluster.yaml") ==
        "study.yaml:3:8: model: a file of a model is a Hugging Face config.json or an .onnx "
        "file, got 'dir/cluster.yaml'");
  CHECK(with_model("{preset: cluster.yml, layers: 4}") ==
        "study.yaml:3:17: model.preset: a file of a model is a Hugging Face config.json or an "
        ".onnx file, got 'cluster.yml'");
}

TEST_CASE("numbers of the training block are in range") {
  CHECK(set("training.dropout=1") ==
        "--set training.dropout=1: training.dropout: expected at least 0 and less than 1, got 1");
  CHECK(set("training.betas=[0.9]") ==
        "--set training.betas=[0.9]: training.betas: expected two numbers, such as [0.9, 0.95]");
  CHECK(
      set("training.lr={schedule: linear}") ==
      "--set training.lr={schedule: linear}: training.lr.schedule: unknown schedule 'linear'; this "
      "version has constant and cosine");
  CHECK(
      set("training.loss_scale=0") ==
      "--set training.loss_scale=0: training.loss_scale: expected dynamic or a number more than 0, "
      "got 0");
  CHECK(set("parallel.placement=DPX") ==
        "--set parallel.placement=DPX: parallel.placement: expected letters of D, P, C, E, T, each "
        "at most once, such as DPT, or cluster, spread, stages or flat, got 'DPX'");
  CHECK(set("training.clip_norm=-1") ==
        "--set training.clip_norm=-1: training.clip_norm: expected at least 0, got -1");
}

TEST_CASE("AdamW's gradients are of fp64 where the weights are") {
  // Where they were not, a simulation answered and the first step of a training failed.
  CHECK(set("training.grad_dtype=fp64") ==
        "--set training.grad_dtype=fp64: training.grad_dtype: AdamW updates bf16 weights with "
        "gradients of fp32, fp16 "
        "or bf16, got fp64");
  CHECK(error_of(kSmallStudy, {"training.grad_dtype=fp64", "training.optimizer=sgd"}) ==
        "no error");
  CHECK(set("training.grad_dtype=fp16") == "no error");
}

TEST_CASE("keys that take words beside values name them") {
  CHECK(set("training.loss_scale=static") ==
        "--set training.loss_scale=static: training.loss_scale: expected dynamic or a number more "
        "than 0, got 'static'");
  CHECK(set("training.flash_attention=yes") ==
        "--set training.flash_attention=yes: training.flash_attention: expected auto, true or "
        "false, got 'yes'");
  CHECK(set("partition={method: uniform, ends: layer}") ==
        "--set partition={method: uniform, ends: layer}: partition.ends: expected layers, true or "
        "false, got 'layer'");
}

TEST_CASE("an option into a name says how the name takes it") {
  CHECK(set("model.layers=4") ==
        "--set model.layers=4: model.layers: model is the name 'gpt-tiny', at study.yaml:1:8; put "
        "--set 'model={preset: gpt-tiny}' before this option");
  CHECK(error_of(kSmallStudy, {"model={preset: gpt-tiny}", "model.layers=4"}) == "no error");
  CHECK(error_of(kSmallStudy, {"cluster=box", "cluster.nodes=2"}) ==
        "--set cluster.nodes=2: cluster.nodes: cluster is the name 'box', at study.yaml:2:10; put "
        "--set 'cluster={preset: box}' before this option");
}

TEST_CASE("data are of a kind that the family is trained on") {
  const auto problem = [](const std::string& model, const std::string& data) {
    return error_of("cluster: box\ntraining: {global_batch: 64}\nmodel: " + model +
                    "\ndata: " + data + "\n");
  };
  const std::string vit = "{family: vit, layers: 2, hidden: 64, heads: 2}";
  CHECK(problem(vit, "{path: a, kind: images, mean: [0.5, 0.4, 0.3], std: 0.2}") == "no error");
  CHECK(problem(vit, "{path: a, kind: tokens}") ==
        "study.yaml:4:23: data.kind: family vit is trained on images, not on tokens");
  CHECK(problem("gpt-tiny", "{path: a, kind: images}") ==
        "study.yaml:4:23: data.kind: family gpt is trained on tokens, not on images");
  CHECK(problem("gpt-tiny", "{path: a, kind: text}") ==
        "study.yaml:4:23: data.kind: unknown kind of data 'text'; this version has tokens, images "
        "and tensors");
  CHECK(problem("gpt-tiny", "{mean: 0.5}") ==
        "study.yaml:4:14: data.mean: is of images in files, and these are tokens");
  CHECK(problem(vit, "{std: 0.5}") ==
        "study.yaml:4:13: data.std: is of images in files, and these are generated");
  CHECK(problem(vit, "{format: u16}") ==
        "study.yaml:4:16: data.format: is of files of tokens, and these are images");
  CHECK(problem(vit, "{path: a, mean: [1, 2]}") ==
        "study.yaml:4:23: data.mean: expected one number, or 3 for the channels of the model's "
        "images, got 2");
  CHECK(problem(vit, "{mean: []}") ==
        "study.yaml:4:14: data.mean: expected a number for each channel");
  CHECK(problem(vit, "{std: [1, 0, 1]}") ==
        "study.yaml:4:17: data.std[1]: expected more than 0, got 0");
  CHECK(problem(vit, "{std: 0}") == "study.yaml:4:13: data.std: expected more than 0, got 0");
}

}  // namespace trainyard
