// What a study can say wrong, each with the exact message: its place, the values involved and,
// where one can be computed, a value that would work.
#include <catch2/catch.hpp>
#include <string>

#include "tests/study/study_fixture.h"

namespace trainyard::study_errors_test {

namespace {

/// The error of the small study with one option.
std::string set(const std::string& option) { return error_of(kSmallStudy, {option}); }

/// The same with lines after it.
std::string with(const std::string& more) { return error_of(kSmallStudy + more); }

}  // namespace

TEST_CASE("what is missing or unknown is named") {
  CHECK(error_of("model: gpt-tiny\n") == "study.yaml:1:1: missing required key 'cluster'");
  CHECK(error_of("model: gpt-tiny\ncluster: box\n") ==
        "study.yaml:1:1: training: missing required key 'global_batch'");
  // A key without a value is not one that is not there.
  CHECK(error_of("model: gpt-tiny\ncluster: box\ntraining: {global_batch: }\n") ==
        "study.yaml:3:26: training.global_batch: expected a value, got nothing");
  CHECK(set("training.global_batch=") ==
        "study.yaml:4:26: training.global_batch: expected a value, got nothing (set by --set "
        "training.global_batch=)");
  const std::string wanted =
      "study.yaml:1:1: expected a study, a map with at least model, cluster and "
      "training.global_batch, got ";
  CHECK(error_of("") == wanted + "nothing");
  CHECK(error_of("[]") == wanted + "a list");
  CHECK(error_of("gpt3") == wanted + "'gpt3'");
  CHECK(with("modle: x\n") ==
        "study.yaml:5:1: modle: unknown key (did you mean model?); this map takes: checkpoint, "
        "cluster, confidence, data, "
        "era, fidelity, framework, id, measured, model, note, offload, parallel, partition, "
        "recompute, schedule, sharding, source, suspect, sweep, training");
  CHECK(set("parallel.tensr=2") ==
        "--set parallel.tensr=2: parallel.tensr: unknown key (did you mean tensor?); this map "
        "takes: context, d2d_buffer, "
        "data, expert, fsdp, pipeline, placement, scatter_gather, sequence_parallel, tensor, "
        "tensor_method, tensor_modules, "
        "tensor_overlap, virtual_stages, zero");
  // A key of another map is what is meant, above all those that look alike.
  CHECK_THAT(set("zero=3"),
             Catch::StartsWith("--set zero=3: zero: unknown key (did you mean parallel.zero?); "
                               "this map takes: checkpoint, "));
  CHECK_THAT(set("parallel.seq_len=8"),
             Catch::StartsWith("--set parallel.seq_len=8: parallel.seq_len: unknown key (did you "
                               "mean model.seq_len?); this map takes: context, "));
  CHECK_THAT(set("offload.activation=true"),
             Catch::Contains("offload.activation: unknown key (did you mean activations or "
                             "model.activation?); this map takes: "));
  // So is one of another map that looks like it, where none does here.
  CHECK_THAT(with("zeor: 3\n"), Catch::StartsWith("study.yaml:5:1: zeor: unknown key (did you mean "
                                                  "parallel.zero?); this map takes: checkpoint, "));
  CHECK_THAT(set("offload.microbach=2"),
             Catch::StartsWith("--set offload.microbach=2: offload.microbach: unknown key (did you "
                               "mean training.microbatch?); this map takes: activations, "));
  CHECK_THAT(with("colour: red\n"),
             Catch::StartsWith("study.yaml:5:1: colour: unknown key; this map takes: "));
  // Short words are names that are meant, too.
  CHECK_THAT(set("tpp=2"), Catch::StartsWith("--set tpp=2: tpp: unknown key (did you mean "
                                             "pp, tp or vpp?); this map takes: checkpoint, "));
  CHECK_THAT(
      set("parallel.ttp=2"),
      Catch::StartsWith("--set parallel.ttp=2: parallel.ttp: unknown key (did you mean tp?); "
                        "this map takes: context, "));
  CHECK_THAT(with("gbss: 8\n"), Catch::StartsWith("study.yaml:5:1: gbss: unknown key (did you "
                                                  "mean gbs?); this map takes: checkpoint, "));
  for (const std::string cp : {"cp=2", "parallel.data=1", "cp={degree: 2}"}) {
    CAPTURE(cp);
    CHECK_THAT(error_of(kSmallStudy, {cp, "cp.metod=ring"}),
               Catch::StartsWith("--set cp.metod=ring: parallel.context.metod: unknown key (did "
                                 "you mean method?); this map takes: balance, degree, method"));
  }
  CHECK(with("parallel: {tensor: 1}\n") == "study.yaml:5:1: parallel: appears twice in this map");
  CHECK(with("schedule: fastest\n") ==
        "study.yaml:5:11: schedule: unknown schedule 'fastest'; this version has gpipe, 1f1b, "
        "interleaved, zb-h1, zb-1p, zb-2p, opportunistic, interleaved-zb1p, zb-v, dualpipe-v, scp, "
        "pre-recompute-1f1b, "
        "last-no-recompute-1f1b, pre-recompute and last-no-recompute");
  CHECK(with("framework: jax\n") ==
        "study.yaml:5:12: framework.name: no software profile is named 'jax'; known: halfgrad, "
        "megatron-lm and trainyard; for other software write {name: jax, like: "
        "megatron-lm-current}, or "
        "torchtitan-eager for kernels of plain PyTorch");
}

TEST_CASE("the contract's features that this version lacks are refused at their line") {
  CHECK(set("parallel.expert=2") ==
        "--set parallel.expert=2: parallel.expert: expert parallelism is not in this version, "
        "which has tensor, pipeline, context and data parallelism; write 1");
  CHECK(
      set("parallel.tensor_overlap=some") ==
      "--set parallel.tensor_overlap=some: parallel.tensor_overlap: unknown tensor_overlap 'some'; "
      "this version has none, linear, block and across-blocks");
  CHECK(
      set("parallel.zero={stage: 1, offload: parameters}") ==
      "--set parallel.zero={stage: 1, offload: parameters}: parallel.zero.offload: parameters are "
      "fetched from the host as they are gathered, and with parallel.zero.stage 1 they are always "
      "there; write stage: 3");
  CHECK(error_of(kSmallStudy, {"schedule={method: 1f1b, post_validation: true}",
                               "parallel.zero={stage: 3, offload: parameters}"}) ==
        "--set parallel.zero={stage: 3, offload: parameters}: parallel.zero.offload: "
        "schedule.post_validation corrects an update in the next step from weights on the device; "
        "leave one of them out");
  CHECK(
      set("training.cpu_offload=true") ==
      "--set training.cpu_offload=true: training.cpu_offload: the host updates what ZeRO divides, "
      "and parallel.zero.stage is 0; write stage 1, 2 or 3");
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
  CHECK(error_of(study, {"partition={method: uniform, uneven: true}", "parallel.pipeline=90"}) ==
        "study.yaml:4:22: parallel.pipeline: 2 layers a stage leave none of 96 for the last of 90; "
        "48 "
        "stages have them all (set by --set parallel.pipeline=90)");
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
        "study.yaml:5:19: partition[2]: the last stage would begin at layer 12, but layers count "
        "from 0 to 11");
  CHECK(with("partition:\n  {cuts: [3,\n    6, 12]}\n") ==
        "study.yaml:7:8: partition.cuts[2]: the last stage would begin at layer 12, but layers "
        "count from 0 to 11");
  CHECK(
      with("partition: {cuts: [3, 6]}\n").find("study.yaml:5:19: partition.cuts: 2 cuts make 3 ") ==
      0);
  CHECK(with("partition: [3, 3, 6]\n") ==
        "study.yaml:5:16: partition[1]: expected at least 4, got 3");
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
          std::string("study.yaml:5:33: schedule.mode: ") +
              (mode == "fast"
                   ? "fast is for partition smp, whose modules then send directly"
                   : "static is for schedules zb-1p, zb-2p and opportunistic, whose order depends "
                     "on durations, not for gpipe") +
              "; leave it out");
    CHECK(with("schedule: {method: zb-1p, mode: " + mode + "}\n") == "no error");
  }
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

}  // namespace trainyard::study_errors_test
