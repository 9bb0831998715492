// An optimizer's state that lies on the host trains as one that lies on the device, in the same
// bytes that the Program says, and goes on from checkpoints of either.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/real/exec/as_one_device.h"
#include "tests/real/exec/watched_memory.h"
#include "tests/real/exec/zero_layouts.h"
#include "tests/real/parity.h"

namespace trainyard::host_state_test {

namespace {

/// Several buckets to a rank, which take turns in the slots.
const std::string kBuckets = "training.bucket_elements=4000";

std::string zero(const std::string& keys) {
  return "parallel.zero={" + keys + ", offload: optimizer}";
}
Sets of(const Sets& layout, const std::string& keys) {
  return joined(layout, {zero(keys), kBuckets});
}

const Sets kOne = {};

/// Each is trained by gpt, whose embedding and head are tied, and by t5.
const std::vector<Sets> kLayouts = {
    of(kOne, "stage: 1"),
    of(kTwo, "stage: 1"),
    of(kTwo, "stage: 2"),
    of(kTwo, "stage: 3"),
    of(kFour, "stage: 1, replicate: 2"),
    of(kFour, "stage: 2, replicate: 2"),
    of(kFour, "stage: 3, replicate: 2, reduce: last"),
    joined(of(kFour, "stage: 3, reshard_after_forward: false"), {"recompute=full"}),
    of(kPipeline, "stage: 1"),
    of(kPipeline, "stage: 2"),
    of(kPipeline, "stage: 2, reduce: each"),
    joined(of(kPipeline, "stage: 3"), {"schedule=interleaved", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 1"), {"schedule=zb-h1"}),
    joined(of(kPipeline, "stage: 3"), {"schedule=zb-v", "parallel.virtual_stages=2"}),
    joined(of(kPipeline, "stage: 1"), {"schedule=dualpipe-v", "parallel.virtual_stages=2"}),
    of(kTensor, "stage: 1"),
    of(kTensor, "stage: 2"),
    joined(of(kTensor, "stage: 3"), {"recompute=selective"}),
    joined(of(kTensor, "stage: 1"), {"parallel.tensor_overlap=block", "training.microbatch=2"}),
    joined(of(kTwo, "stage: 1"), {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}"}),
    joined(of(kTwo, "stage: 2"), {"training.microbatch=[1, 3]"}),
    joined(of(kPipeline, "stage: 1"),
           {"partition={cuts: [1, 2], on: [0, 1, 0]}", "schedule=gpipe"}),
    joined(of(kPipeline, "stage: 1"),
           {"recompute=full", "offload={activations: true, horizon: 1}"})};

LoopbackRun run(const std::string& text, const Sets& layout, int steps = 3) {
  return run_loopback(text, layout, {.steps = steps});
}

bool updates_on_host(const Program& program) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.stream == StreamId::kHost) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("state on the host trains as one device does") {
  check_families({kPlainSgd, kClippedAdamW}, kLayouts, updates_on_host);
}

TEST_CASE("state on the host changes no bit of the state on the device") {
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    const std::string text = parity_study(
        "gpt", "precision: " + precision + ", dropout: 0, clip_norm: 0.1, lr: {peak: 0.01}");
    for (const std::string keys : {"stage: 1", "stage: 2", "stage: 3"}) {
      CAPTURE(precision, keys);
      const LoopbackRun here = run(text, joined(kTwo, {"parallel.zero={" + keys + "}", kBuckets}));
      const LoopbackRun away = run(text, of(kTwo, keys));
      CHECK(away.losses == here.losses);
      CHECK(away.gradient_norms == here.gradient_norms);
      CHECK(away.gradients == here.gradients);
      // Shards that were updated themselves, in fp32, have become a master.
      if (here.masters.empty())
        CHECK(away.masters == here.weights);
      else
        CHECK(away.masters == here.masters);
    }
  }
}

TEST_CASE("a step that overflows leaves weights on the device as they were") {
  const std::string text = parity_study(
      "gpt", "precision: fp16, dropout: 0, clip_norm: 1, lr: {peak: 0.01}, loss_scale: 1073741824");
  const Sets layout = of(kTwo, "stage: 1");
  const LoopbackRun before = run(text, layout, 0), after = run(text, layout, 2);
  CHECK(after.weights == before.weights);
  CHECK(after.masters == before.masters);
}

TEST_CASE("weights in 8 bits, and ranks that share sequences, go with state on the host") {
  const std::string fp8 =
      parity_study("gpt", "precision: {type: fp8, recipe: delayed}, dropout: 0, lr: {peak: 0.01}");
  const LoopbackRun here = run(fp8, joined(kTwo, {"parallel.zero=1", kBuckets}));
  CHECK(run(fp8, of(kTwo, "stage: 1")).losses == here.losses);

  const std::string training = "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";
  const LoopbackRun one = run(parity_study("llama", training), {});
  const Sets shared = {"cluster.ranks=4", "parallel.data=2", "parallel.context=2"};
  for (const std::string keys : {"stage: 1", "stage: 3"}) {
    CAPTURE(keys);
    check_same(one, run(parity_study("llama", training), of(shared, keys)), kFp64);
  }
}

TEST_CASE("state on the host goes with a sharding of one's own, and replicas of pipeline ranks") {
  const LoopbackRun one = run(parity_study("gpt", kClippedAdamW), {});
  const Sets own = {"cluster.ranks=8", "parallel.data=2", "parallel.tensor={tp0: 2, tp1: 2}",
                    kAtpSharding};
  for (const std::string keys : {"stage: 1", "stage: 3"}) {
    CAPTURE(keys);
    check_same(one, run(parity_study("gpt", kClippedAdamW), of(own, keys)), kFp64);
  }
  const Sets replicas = {"cluster.ranks=4", "partition={replicas: [1, 3]}",
                         "training.microbatch=4"};
  check_same(one, run(parity_study("gpt", kClippedAdamW), of(replicas, "stage: 1")), kFp64);
}

TEST_CASE("state on the host goes over Gloo as in memory") {
  const std::string text = parity_study("gpt", kClippedAdamW);
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  for (const Sets& layout :
       {of(kFour, "stage: 3"), of(kPipeline, "stage: 1"), of(kTensor, "stage: 2")}) {
    CAPTURE(layout);
    check_same(run(text, layout, 2), run_loopback(text, layout, over_gloo), kFp64);
  }
}

TEST_CASE("checkpoints cross between state on the host and on the device") {
  check_goes_on(parity_study("gpt", kClippedAdamW), of(kFour, "stage: 2"),
                {joined(kFour, {"parallel.zero=1"}), joined(kTwo, {"parallel.zero=3"}),
                 of(kPipeline, "stage: 3"), joined(kTensor, {"parallel.zero=1"}),
                 joined(kTwo, {"parallel.zero={stage: 1, by: parameter}"}), of(kOne, "stage: 1")});
}

TEST_CASE("a rank with its state on the host holds what its Program says, here and there") {
  const std::string text =
      parity_study("gpt", "precision: bf16, dropout: 0, clip_norm: 1, lr: {peak: 0.01}");
  const auto watched = [&](const std::string& keys) {
    return watch_memory(text, {"parallel.zero={" + keys + "}", kBuckets});
  };
  const WatchedMemory here = watched("stage: 1"), away = watched("stage: 1, offload: optimizer");
  CHECK(here.peak.host == 0);
  CHECK(away.peak.optimizer_state == 0);
  CHECK(here.peak.total - away.peak.total == here.peak.optimizer_state);
  // On a CPU both memories are this process's.
  REQUIRE(here.live.size() == away.live.size());
  for (std::size_t i = 0; i < here.live.size(); ++i) {
    CAPTURE(i);
    CHECK(away.live[i] - away.peak.host == here.live[i] - here.peak.optimizer_state);
    CHECK(away.live[i] <= away.peak.total + away.peak.host);
  }
}

}  // namespace trainyard::host_state_test
