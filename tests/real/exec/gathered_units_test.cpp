// ZeRO-2 and 3 train as one device does: gradients reduced in shards, parameters gathered unit by
// unit, in groups of replicas, kept for the backward or not. And so do whole gradients that are
// reduced in each microbatch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/exec/zero_layouts.h"
#include "tests/real/parity.h"

namespace trainyard::gathered_units_test {

namespace {

const std::string kAdamWNoDropout =
    "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";

std::string zero(const std::string& keys) { return "parallel.zero={" + keys + "}"; }
Sets of(const Sets& layout, const std::string& keys) { return joined(layout, {zero(keys)}); }

/// Each is trained by gpt, whose embedding and head are tied, and by t5, whose biases are read in
/// several layers.
const std::vector<Sets> kLayouts = {
    of(kTwo, "stage: 2"),
    of(kTwo, "stage: 3"),
    of(kFour, "stage: 3, prefetch: 0"),
    of(kFour, "stage: 3, prefetch: 3, gathers_in_flight: 2"),
    joined(of(kFour, "stage: 3, reshard_after_forward: false"), {"recompute=full"}),
    joined(of(kFour, "stage: 3"), {"recompute=full"}),
    of(kFour, "stage: 2, replicate: 2"),
    of(kFour, "stage: 1, replicate: 2"),
    of(kFour, "stage: 3, replicate: 2"),
    of(kFour, "stage: 3, replicate: 2, reduce: last"),
    of(kFour, "stage: 3, reshard_after_forward: 2"),
    joined(of(kFour, "stage: 3, reshard_after_forward: 2, prefetch: 0, reduce: last"),
           {"recompute=full"}),
    joined(of(kFour, "stage: 3, replicate: 2, reshard_after_forward: 2"),
           {"cluster.ranks=8", "parallel.data=8"}),
    joined(of(kPipeline, "stage: 3, reshard_after_forward: 2"),
           {"cluster.ranks=8", "parallel.data=4"}),
    joined(of(kPipeline, "stage: 3, reshard_after_forward: 2"),
           {"cluster.ranks=8", "parallel.data=4", "schedule=zb-h1", "recompute=full"}),
    joined(of(kTensor, "stage: 3, reshard_after_forward: 2"),
           {"cluster.ranks=8", "parallel.data=4"}),
    of(kFour, "stage: 2, reduce: last"),
    of(kTwo, "stage: 3, reduce: last, reshard_after_forward: false"),
    of(kPipeline, "stage: 3"),
    joined(of(kPipeline, "stage: 3, reduce: last"), {"training.microbatch=4"}),
    of(kPipeline, "stage: 2"),
    of(kPipeline, "stage: 2, reduce: each"),
    joined(of(kPipeline, "stage: 3, reshard_after_forward: false"), {"schedule=gpipe"}),
    joined(of(kPipeline, "stage: 3"), {"schedule=zb-h1", "recompute=full"}),
    joined(of(kPipeline, "stage: 2, reduce: each"), {"schedule=zb-1p"}),
    joined(of(kPipeline, "stage: 3"), {"schedule=interleaved", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 3, units: ['*attention', '*.mlp']"), {"recompute=selective"}),
    of(kTensor, "stage: 3"),
    of(kTensor, "stage: 2"),
    joined(of(kTensor, "stage: 3, reduce: last"), {"recompute=full"}),
    joined(of(kTensor, "stage: 3"), {"parallel.tensor_overlap=block", "training.microbatch=2"}),
    joined(of(kPipeline, "stage: 3"),
           {"cluster.ranks=8", "parallel.tensor=2", "schedule=zb-v", "parallel.virtual_stages=2"}),
    joined(of(kTwo, "stage: 3"), {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}"}),
    joined(of(kTwo, "stage: 2"), {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}"})};

/// The same, each parameter divided by its rows: 32 of them, of the vocabulary's and of the
/// positions' others.
const std::vector<Sets> kByRows = {
    of(kTwo, "stage: 3, layout: per-parameter"),
    of(kFour, "stage: 3, layout: per-parameter, prefetch: 3, gathers_in_flight: 2"),
    joined(of(kFour, "stage: 3, layout: per-parameter, reshard_after_forward: false"),
           {"recompute=full"}),
    of(kFour, "stage: 3, layout: per-parameter, replicate: 2"),
    of(kFour, "stage: 3, layout: per-parameter, replicate: 2, reduce: last"),
    of(kFour, "stage: 3, layout: per-parameter, reshard_after_forward: 2"),
    joined(of(kPipeline, "stage: 3, layout: per-parameter, reshard_after_forward: 2"),
           {"cluster.ranks=8", "parallel.data=4", "schedule=zb-h1", "recompute=full"}),
    joined(of(kPipeline, "stage: 3, layout: per-parameter, reshard_after_forward: false"),
           {"schedule=gpipe"}),
    joined(of(kPipeline, "stage: 3, layout: per-parameter"),
           {"schedule=interleaved", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 3, layout: per-parameter, units: ['*attention', '*.mlp']"),
           {"recompute=selective"}),
    of(kTensor, "stage: 3, layout: per-parameter"),
    joined(of(kTensor, "stage: 3, layout: per-parameter, reduce: last"),
           {"cluster.ranks=8", "parallel.data=4", "recompute=full"})};

const Sets kThereAndBack = {"cluster.ranks=4", "parallel.data=2",
                            "partition={cuts: [1, 2], on: [0, 1, 0]}", "schedule=gpipe"};

}  // namespace

TEST_CASE("gathered and sharded parameters train as one device does") {
  check_families({kPlainSgd, kClippedAdamW}, kLayouts);
}

TEST_CASE("whole gradients reduced in each microbatch train as one device does") {
  const std::string each = "stage: 0, reduce: each";
  check_families(
      {kPlainSgd, kClippedAdamW},
      {of(kTwo, each), joined(of(kFour, each), {"recompute=full"}),
       joined(of(kPipeline, each), {"schedule=gpipe"}),
       joined(of(kPipeline, each), {"recompute={method: full, ends: true}"}),
       joined(of(kPipeline, each), {"schedule=zb-h1"}),
       joined(of(kPipeline, each), {"schedule=interleaved", "parallel.virtual_stages=2"}),
       of(kTensor, each), of(kThereAndBack, each),
       of({"cluster.ranks=4", "partition={replicas: [1, 3]}", "training.microbatch=4"}, each),
       joined(of(kTwo, each), {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}"})},
      [](const Program& program) {
        return std::ranges::any_of(program.segments, [](const Segment& segment) {
          return segment.phase == Phase::kBackward || segment.phase == Phase::kBackwardWeight
                     ? std::ranges::any_of(segment.ops,
                                           [](const ProgramOp& op) {
                                             return op.kind == OpKind::kAllReduce &&
                                                    op.stream == StreamId::kDp;
                                           })
                     : false;
        });
      });
}

TEST_CASE("parameters divided by their rows train as one device does") {
  check_families({kClippedAdamW}, kByRows);
}

TEST_CASE(
    "parameters divided by their rows go over Gloo, and lie on the host, as runs of units do") {
  const std::string text = parity_study("gpt", kClippedAdamW);
  const std::string keys = "stage: 3, layout: per-parameter, offload: parameters";
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  check_same(one, run_loopback(text, of(kFour, keys), {.steps = 2}), kFp64);
  check_same(one, run_loopback(text, of(kTwo, "stage: 3, layout: per-parameter"), over_gloo),
             kFp64);
}

TEST_CASE(
    "gathered parameters go with a sharding of one's own, stages as listed, unequal batches") {
  const LoopbackRun one = run_loopback(parity_study("gpt", kClippedAdamW), {}, {.steps = 3});
  const Sets own = {"cluster.ranks=8", "parallel.data=2", "parallel.tensor={tp0: 2, tp1: 2}",
                    kAtpSharding};
  const Sets unequal = joined(kTwo, {"training.microbatch=[1, 3]"});
  for (const Sets& layout : {own, kThereAndBack, unequal}) {
    for (const std::string keys : {"stage: 2", "stage: 2, reduce: each", "stage: 3"}) {
      CAPTURE(layout, keys);
      check_same(one,
                 run_loopback(parity_study("gpt", kClippedAdamW), of(layout, keys), {.steps = 3}),
                 kFp64);
    }
  }
}

TEST_CASE("activations wait on the host while parameters are gathered") {
  const LoopbackRun one = run_loopback(parity_study("gpt", kPlainSgd), {}, {.steps = 2});
  const Sets offloaded = {"recompute=full", "offload={activations: true, horizon: 1}"};
  for (const Sets& layout : {of(kTwo, "stage: 3"), of(kPipeline, "stage: 3")}) {
    CAPTURE(layout);
    check_same(
        one, run_loopback(parity_study("gpt", kPlainSgd), joined(layout, offloaded), {.steps = 2}),
        kFp64);
  }
}

TEST_CASE("gathered parameters train in 16 bits as shards of the state alone do") {
  // The loss of the first step is that of the same working weights. What follows differs by the
  // order of sums in 16 bits.
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::string text = parity_study(
        "gpt", "precision: " + precision + ", dropout: 0, clip_norm: 1, lr: {peak: 0.01}");
    const LoopbackRun state = run_loopback(text, of(kFour, "stage: 1"), {.steps = 3});
    for (const std::string keys :
         {"stage: 2", "stage: 3", "stage: 3, reduce_dtype: bf16", "stage: 3, replicate: 2",
          "stage: 3, reshard_after_forward: 2", "stage: 3, layout: per-parameter"}) {
      CAPTURE(precision, keys);
      const LoopbackRun run = run_loopback(text, of(kFour, keys), {.steps = 3});
      CHECK(run.losses[0] == Approx(state.losses[0]).epsilon(1e-6));
      CHECK(run.gradient_norms[0] == Approx(state.gradient_norms[0]).epsilon(4e-3));
      for (std::size_t step = 1; step < 3; ++step)
        CHECK(run.losses[step] == Approx(state.losses[step]).epsilon(2e-3));
    }
  }
}

TEST_CASE("gathered weights are cast into 8 bits as whole ones are") {
  // The first step has the same weights, casts and microbatches: what differs is the order of sums.
  for (const std::string recipe : {"tensorwise", "delayed", "rowwise"}) {
    const std::string text = parity_study(
        "gpt", "precision: {type: fp8, recipe: " + recipe + "}, dropout: 0, lr: {peak: 0.01}");
    const LoopbackRun state = run_loopback(text, of(kTwo, "stage: 1"), {.steps = 3});
    for (const Sets& layout :
         {of(kTwo, "stage: 3"), joined(of(kTwo, "stage: 3"), {"recompute=full"})}) {
      CAPTURE(recipe, layout);
      const LoopbackRun run = run_loopback(text, layout, {.steps = 3});
      CHECK(run.losses[0] == Approx(state.losses[0]).epsilon(1e-6));
      CHECK(run.gradient_norms[0] == Approx(state.gradient_norms[0]).epsilon(4e-3));
      for (std::size_t step = 1; step < 3; ++step)
        CHECK(run.losses[step] == Approx(state.losses[step]).epsilon(5e-3));
    }
  }
}

TEST_CASE("ranks that share sequences divide parameters, too") {
  const std::string training = kAdamWNoDropout;
  const LoopbackRun one = run_loopback(parity_study("llama", training), {}, {.steps = 2});
  const Sets shared = {"cluster.ranks=4", "parallel.data=2", "parallel.context=2"};
  for (const std::string keys : {"stage: 1", "stage: 2", "stage: 3", "stage: 3, replicate: 2",
                                 "stage: 3, reshard_after_forward: 2"}) {
    CAPTURE(keys);
    check_same(one, run_loopback(parity_study("llama", training), of(shared, keys), {.steps = 2}),
               kFp64);
  }
}

TEST_CASE("gathered parameters go over Gloo as in memory") {
  const std::string text = parity_study("gpt", kClippedAdamW);
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  for (const Sets& layout :
       {of(kFour, "stage: 3, replicate: 2"), of(kFour, "stage: 3, reshard_after_forward: 2"),
        of(kPipeline, "stage: 3"), of(kTensor, "stage: 2")}) {
    CAPTURE(layout);
    check_same(run_loopback(text, layout, {.steps = 2}), run_loopback(text, layout, over_gloo),
               kFp64);
  }
}

TEST_CASE("checkpoints cross between gathered parameters and other layouts") {
  check_goes_on(
      parity_study("gpt", kClippedAdamW), of(kFour, "stage: 3"),
      {of(kTwo, "stage: 2"), of(kFour, "stage: 3, replicate: 2"),
       of(kFour, "stage: 3, reshard_after_forward: 2"), of(kPipeline, "stage: 3"),
       joined(kTensor, {"parallel.zero=1"}), joined(kPipeline, {zero("stage: 1, by: parameter")}),
       of(kTensor, "stage: 3"), of(kFour, "stage: 3, layout: per-parameter")});
  check_goes_on(parity_study("gpt", kClippedAdamW), of(kFour, "stage: 3, layout: per-parameter"),
                {of(kTwo, "stage: 3"), of(kTensor, "stage: 3, layout: per-parameter")});
}

}  // namespace trainyard::gathered_units_test
