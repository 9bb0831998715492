// parallel.zero: what its keys say, what the plan decides for them, and what is refused.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/program/program_text.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::zero_keys_test {

using namespace std::string_literals;

namespace {

/// Line 3 is `parallel:`, on 8 devices.
std::string study_with(const std::string& parallel, const std::string& more = "") {
  return "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
         "parallel: {" +
         parallel + "}\ntraining: {global_batch: 16}\n" + more;
}

ZeroConfig zero(const std::string& parallel) {
  return prepare_text(study_with(parallel)).study.parallel.zero;
}

std::string fault(const std::string& parallel, const std::string& more = "") {
  try {
    prepare_text(study_with(parallel, more));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("stages of ZeRO have what frameworks do as their defaults") {
  const ZeroConfig third = zero("zero: 3");
  CHECK(third.stage == 3);
  CHECK(third.units.empty());
  CHECK(third.prefetch == 1);
  CHECK(third.gathers_in_flight == 2);
  CHECK(third.reshard_after_forward == ZeroConfig::kAllShards);
  CHECK(zero("zero: {stage: 3, reshard_after_forward: false}").reshard_after_forward == 1);
  CHECK(zero("zero: {stage: 3, reshard_after_forward: true}") == third);
  CHECK(zero("zero: {stage: 3, reshard_after_forward: 4}").reshard_after_forward == 4);
  CHECK(third.reduces_each());
  CHECK_FALSE(third.reduce_dtype.has_value());
  CHECK(zero("fsdp: true") == third);
  CHECK(zero("fsdp: false").stage == 0);
  CHECK(zero("zero: {stage: 3, units: layer}") == third);
  CHECK(zero("zero: {stage: 3, units: ['*.mlp', '*.attention']}").units ==
        std::vector<std::string>{"*.mlp", "*.attention"});
  CHECK(zero("zero: {stage: 3, reduce_dtype: bf16}").reduce_dtype == DType::kBf16);
  // DeepSpeed reduces in each microbatch, and has no ZeRO-2 in a pipeline; Megatron reduces once.
  CHECK(zero("zero: 2").reduces_each());
  CHECK_FALSE(zero("pipeline: 2, zero: 2").reduces_each());
  CHECK(zero("pipeline: 2, zero: {stage: 2, reduce: each}").reduces_each());
  CHECK(zero("pipeline: 2, zero: 3").reduces_each());
  // PyTorch's pipelines reduce behind the last microbatch of FSDP2 (stage.py,
  // backward_maybe_with_nosync).
  const auto under = [](const std::string& parallel, const std::string& framework) {
    return prepare_text(study_with(parallel, "framework: " + framework + "\n"))
        .study.parallel.zero.reduces_each();
  };
  CHECK_FALSE(under("pipeline: 2, zero: 3", "torchtitan"));
  CHECK(under("pipeline: 2, zero: {stage: 3, reduce: each}", "torchtitan"));
  CHECK(under("zero: 3", "torchtitan"));
  CHECK_FALSE(zero("zero: 1").reduces_each());
  // With one microbatch the last is each, and no whole gradients wait for it.
  const std::string last = study_with("zero: {stage: 3, reduce: last}");
  CHECK_FALSE(prepare_text(last).study.parallel.zero.reduces_each());
  CHECK(prepare_text(last, {"training.microbatch=2"}).study.parallel.zero.reduces_each());
}

TEST_CASE("FSDP reduces in the type of the weights, where nothing else is said") {
  const auto reduced = [](const std::string& keys, const std::string& more) {
    return prepare_text(study_with("zero: " + keys, more)).study.parallel.zero.reduce_dtype;
  };
  const std::string fsdp = "framework: pytorch-fsdp\n";
  CHECK(reduced("3", fsdp) == DType::kBf16);
  CHECK(reduced("2", fsdp) == DType::kBf16);
  CHECK(reduced("{stage: 3, reduce_dtype: fp32}", fsdp) == DType::kFp32);
  CHECK_FALSE(reduced("1", fsdp).has_value());
  CHECK_FALSE(reduced("3", "framework: torchtitan\n").has_value());
  CHECK_FALSE(prepare_text(study_with("zero: 3", fsdp), {"training.grad_dtype=fp32"})
                  .study.parallel.zero.reduce_dtype.has_value());
  CHECK_FALSE(prepare_text(study_with("zero: 3", fsdp), {"training.precision=fp32"})
                  .study.parallel.zero.reduce_dtype.has_value());
}

TEST_CASE("a unit is laid out as the framework lays it out") {
  const auto laid_out = [](const std::string& keys, const std::string& framework) {
    const Study study =
        prepare_text(study_with("zero: " + keys, "framework: " + framework + "\n")).study;
    return study.parallel.zero.by == ZeroConfig::By::kRows ? "rows" : "runs";
  };
  const std::string fsdp1 = "{name: pytorch-fsdp, version: '2023'}", fsdp2 = "pytorch-fsdp";
  CHECK(laid_out("3", "trainyard") == "runs"s);
  CHECK(laid_out("3", fsdp1) == "runs"s);
  CHECK(laid_out("3", fsdp2) == "rows"s);
  CHECK(laid_out("3", "torchtitan") == "rows"s);
  CHECK(laid_out("{stage: 3, layout: flat}", fsdp2) == "runs"s);
  CHECK(laid_out("{stage: 3, layout: per-parameter}", fsdp1) == "rows"s);
  CHECK(laid_out("2", fsdp2) == "runs"s);
  CHECK(fault("zero: {stage: 3, by: parameter, layout: per-parameter}") ==
        "study.yaml:3:33: parallel.zero.by: parameter is of stage 1: stage 3 divides gradients, "
        "too; write shard");
  CHECK(
      prepare_text(study_with("zero: {stage: 2, layout: per-parameter}")).study.warnings ==
      std::vector<std::string>{"parallel.zero.layout is not used: stage 2 gathers no parameters"});
}

TEST_CASE(
    "whole gradients are reduced once a step, or in each microbatch where the study says so") {
  const auto prepared = [](const std::string& keys, const std::string& set = "") {
    return prepare_text(study_with("zero: " + keys),
                        set.empty() ? std::vector<std::string>{} : std::vector{set});
  };
  const auto reduces = [](const Prepared& of) { return of.study.parallel.zero.reduces_each(); };
  CHECK_FALSE(reduces(prepared("0")));
  CHECK_FALSE(reduces(prepared("{stage: 0, reduce: last}")));
  CHECK_FALSE(reduces(prepared("{stage: 1, reduce: each}")));
  const Prepared each = prepared("{stage: 0, reduce: each}");
  CHECK(reduces(each));
  CHECK_FALSE(each.study.parallel.zero.reduce_dtype.has_value());
  CHECK(each.study.warnings.empty());
  // A step of one microbatch has nothing to add up.
  CHECK_FALSE(reduces(prepared("{stage: 0, reduce: each}", "training.microbatch=2")));
  const std::string resolved = resolved_study_text(each.study);
  CHECK_THAT(resolved, Catch::Contains("reduce: each"));
  CHECK(program_digest(compiled_program(prepare_text(resolved))) ==
        program_digest(compiled_program(each)));
  CHECK(program_digest(compiled_program(prepared("{stage: 0, reduce: last}"))) ==
        program_digest(compiled_program(prepared("0"))));
}

TEST_CASE("what a stage of ZeRO has no use for is said") {
  const auto warnings = [](const std::string& keys) {
    return prepare_text(study_with("zero: {" + keys + "}")).study.warnings;
  };
  using Warnings = std::vector<std::string>;
  CHECK(warnings("stage: 0, replicate: 2") ==
        Warnings{"parallel.zero.replicate is not used: stage 0 divides nothing"});
  CHECK(warnings("stage: 1, reduce: each") ==
        Warnings{"parallel.zero.reduce is not used: stage 1 reduces once a step"});
  CHECK(warnings("stage: 2, prefetch: 3, units: layer") ==
        Warnings{"parallel.zero.units is not used: stage 2 gathers no parameters",
                 "parallel.zero.prefetch is not used: stage 2 gathers no parameters"});
  CHECK(warnings("stage: 2, reshard_after_forward: 2") ==
        Warnings{"parallel.zero.reshard_after_forward is not used: stage 2 gathers no parameters"});
  CHECK(warnings("stage: 3, prefetch: 3, units: layer, reduce: last").empty());
  CHECK(zero("zero: {stage: 0, replicate: 2}").replicate == 1);
}

TEST_CASE("what ZeRO does not go with is refused at its key") {
  const std::string at = "study.yaml:3:";
  CHECK(fault("zero: 4") == at + "18: parallel.zero: expected at most 3, got 4");
  CHECK(fault("zero: {stage: 2, by: parameter}") ==
        at + "33: parallel.zero.by: parameter is of stage 1: stage 2 divides gradients, too; write "
             "shard");
  CHECK(fault("zero: {stage: 1, by: parameter, replicate: 2}") ==
        at + "55: parallel.zero.replicate: groups of replicas divide shards, not whole parameters; "
             "leave it out, or write by: shard");
  CHECK(fault("zero: {stage: 3, replicate: 3}") ==
        at + "40: parallel.zero.replicate: 3 groups do not divide parallel.data 8; 2 and 4 do");
  CHECK(fault("zero: {stage: 3, replicate: 8}") ==
        at + "40: parallel.zero.replicate: leaves one replica in each group, which has nobody to "
             "divide with; 4 does");
  CHECK(fault("data: 2, zero: {stage: 3, replicate: 2}") ==
        at + "49: parallel.zero.replicate: leaves one replica in each group, which has nobody to "
             "divide with; leave it out");
  // The ranks of method smp have samples of their own, but are no replicas.
  CHECK(fault("tensor: 4, data: 1, tensor_method: smp, zero: {stage: 1, replicate: 2}") ==
        at + "80: parallel.zero.replicate: 2 groups do not divide parallel.data 1; leave it out");
  CHECK(fault("zero: {stage: 3, units: layers}") ==
        at + "36: parallel.zero.units: expected layer, or a list of patterns of modules such as "
             "[\"*.layers.*\"], got 'layers'");
  CHECK(fault("zero: {stage: 3, units: []}") ==
        at + "36: parallel.zero.units: expected patterns of modules, got nothing");
  CHECK(fault("fsdp: true, zero: 1") ==
        at +
            "18: parallel.fsdp: is stage 3 of ZeRO, and parallel.zero says a stage, too; leave one "
            "of them out");
  const std::string reshard = at + "52: parallel.zero.reshard_after_forward: ";
  CHECK(fault("zero: {stage: 3, reshard_after_forward: 1}") ==
        reshard + "one rank would have all of it; write false");
  CHECK(fault("zero: {stage: 3, reshard_after_forward: 8}") ==
        reshard + "all 8 ranks divide the parameters anyway; write true");
  CHECK(fault("zero: {stage: 3, reshard_after_forward: 3}") ==
        reshard + "groups of 3 ranks do not divide the 8 that divide the parameters");
  CHECK(fault("zero: {stage: 3, reshard_after_forward: 0}") ==
        reshard + "expected at least 1, got 0");
  CHECK(fault("zero: {stage: 3, reshard_after_forward: some}") ==
        reshard + "expected true, false or a number of ranks, got 'some'");
  CHECK(fault("zero: {stage: 3, reshard_after_forward: 4, replicate: 2}") ==
        reshard + "all 4 ranks divide the parameters anyway; write true");
  CHECK(fault("context: 4, zero: {stage: 3, reshard_after_forward: 2}") ==
        at + "64: parallel.zero.reshard_after_forward: groups of 2 ranks do not hold the 4 that "
             "share a sequence (parallel.context); write a multiple of 4");
  CHECK(fault("zero: {stage: 3, reduce_dtype: int8}")
            .starts_with(at + "43: parallel.zero.reduce_dtype"));
  const auto beside_replicas = [&](const std::string& zero) {
    return fault("zero: {stage: 3, " + zero + "}", "partition: {replicas: [2, 6]}\n");
  };
  // 2 and 6 replicas: both are twice as many; 6 are three times two.
  CHECK_THAT(beside_replicas("replicate: 3"),
             Catch::Contains("parallel.zero.replicate: 3 groups do not divide the replicas of each "
                             "pipeline rank (partition.replicas); 2 does"));
  CHECK_THAT(beside_replicas("reshard_after_forward: 3"),
             Catch::Contains("parallel.zero.reshard_after_forward: groups of 3 ranks do not divide "
                             "those that divide the parameters of each pipeline rank "
                             "(partition.replicas); 2 does"));
  // Two groups of 1 and 3 replicas have no neighbours in common.
  CHECK_THAT(beside_replicas("replicate: 2, reshard_after_forward: 3"),
             Catch::Contains("(partition.replicas); write true or false"));
  CHECK_THAT(fault("zero: {stage: 3, replicate: 2}", "partition: {replicas: [1, 7]}\n"),
             Catch::Contains("of each pipeline rank (partition.replicas); leave it out"));
  CHECK_THAT(fault("zero: {stage: 3, replicate: 4}", "partition: {replicas: [4, 4]}\n"),
             Catch::Contains("parallel.zero.replicate: leaves one replica in each group of each "
                             "pipeline rank (partition.replicas), which has nobody to divide with; "
                             "2 does"));
}

}  // namespace trainyard::zero_keys_test
