// Unlike numbers of replicas train as one device does, beside every feature that they may be
// combined with, and their checkpoints are read by other layouts and the other way round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::replicas_test {

namespace {

const std::string kTraining = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

Sets on(int ranks, const std::string& partition, int microbatch = 4) {
  return {"cluster.ranks=" + std::to_string(ranks), "partition={" + partition + "}",
          "training.microbatch=" + std::to_string(microbatch)};
}
const Sets kOneAndThree = on(4, "replicas: [1, 3]");
const std::string kOwners = "parallel.zero={stage: 1, by: parameter}";

/// Each in gpt and llama, two steps: as one rank.
void check_features(const std::vector<Sets>& features) {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(
        family,
        family == "llama" ? "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" : kTraining);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      check_same(one, run_loopback(text, feature, {.steps = 2}), kFp64);
    }
  }
}

}  // namespace

TEST_CASE("unlike numbers of replicas train as one device does") {
  const std::vector<Sets> features = {
      kOneAndThree, on(4, "replicas: [3, 1]", 8), on(4, "replicas: [2, 2]"),
      on(8, "replicas: [3, 5]", 8), on(8, "replicas: [2, 6]", 8), on(7, "replicas: [1, 2, 3, 1]"),
      on(2, "replicas: [1, 1]"), on(3, "replicas: [3]"),
      joined(on(3, "replicas: [3]", 8), {"parallel.zero=1"}),
      joined(on(4, "replicas: [1, 3]"), {"parallel.placement=flat"}),
      joined(kOneAndThree, {"training.microbatch=[5, 3]"}),
      joined(kOneAndThree, {"schedule=gpipe", "recompute=selective"}),
      joined(kOneAndThree, {"schedule=zb-h1"}),
      joined(on(4, "replicas: [1, 3]"), {"parallel.virtual_stages=2", "schedule=interleaved"}),
      joined(on(4, "replicas: [1, 3]"), {"schedule=zb-v"}),
      joined(on(3, "replicas: [1, 2]", 2), {"schedule=dualpipe-v"}),
      joined(kOneAndThree, {"recompute=full"}),
      joined(kOneAndThree, {"recompute=full", "offload={activations: true, horizon: 1}"}),
      joined(kOneAndThree, {"recompute={method: stage-aware, first: 0.5}"}),
      joined(kOneAndThree, {"parallel.zero=1"}),
      joined(on(8, "replicas: [3, 5]", 8), {"parallel.zero=1"}), joined(kOneAndThree, {kOwners}),
      joined(on(8, "replicas: [3, 5]", 8), {kOwners, "recompute=full"}),
      joined(on(8, "replicas: [1, 3]"), {"parallel.tensor=2", kOwners}),
      joined(on(6, "cuts: [1, 3], replicas: [2, 4], on: [1, 0, 1]"), {kOwners}),
      joined(on(8, "replicas: [1, 3]"),
             {"parallel.tensor=2", "parallel.sequence_parallel=true", "parallel.zero=1"}),
      joined(on(8, "replicas: [1, 3]"),
             {"parallel.tensor={tp0: 2}", "sharding={'*.mlp.fc1': {weight: [tp, R]}}"}),
      // What is sent cut over the tensor group, too.
      joined(on(8, "replicas: [1, 3]"), {"parallel.tensor=2", "parallel.scatter_gather=true"}),
      joined(on(8, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"),
             {"parallel.tensor=2", "parallel.scatter_gather=true", "recompute=full"}),
      joined(on(6, "replicas: [1, 2]"), {"parallel.tensor=2", "parallel.scatter_gather=true",
                                         "parallel.virtual_stages=2", "schedule=interleaved"}),
      joined(on(6, "replicas: [1, 2]", 8), {"parallel.tensor=2", "parallel.tensor_overlap=block"}),
      joined(on(12, "replicas: [1, 2]"), {"parallel.tensor={tp0: 2, tp1: 2}", kAtpSharding}),
      on(4, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"),
      joined(on(6, "cuts: [1, 3], replicas: [2, 4], on: [1, 0, 1]"),
             {"parallel.zero=1", "recompute=full"})};
  // Llama's MLP has other modules: its layers are split as the method does.
  for (const std::string family : {"gpt", "bert-next", "llama"}) {
    const std::string text = parity_study(
        family,
        family == "llama" ? "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" : kTraining);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const Sets& feature : features) {
      const bool of_mlp = feature.back().starts_with("sharding=");
      if (of_mlp && family == "llama") continue;
      CAPTURE(family, feature);
      check_same(one, run_loopback(text, feature, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("each pipeline rank's replicas divide gradients and parameters by their own number") {
  const std::string two = "parallel.zero=2", each = "parallel.zero={stage: 2, reduce: each}";
  const std::string three = "parallel.zero=3", last = "parallel.zero={stage: 3, reduce: last}";
  const std::vector<Sets> features = {
      joined(kOneAndThree, {two}),
      joined(kOneAndThree, {each}),
      joined(kOneAndThree, {three}),
      joined(kOneAndThree, {last}),
      joined(on(8, "replicas: [3, 5]", 8), {each}),
      joined(on(8, "replicas: [3, 5]", 8), {three}),
      joined(kOneAndThree, {"parallel.zero={stage: 3, layout: per-parameter}"}),
      joined(on(8, "replicas: [3, 5]", 8),
             {"parallel.zero={stage: 3, layout: per-parameter}", "recompute=full"}),
      joined(on(8, "replicas: [2, 6]", 8),
             {"parallel.zero={stage: 3, layout: per-parameter, reduce: last}"}),
      joined(on(8, "replicas: [2, 6]", 8), {"parallel.zero={stage: 3, prefetch: 0}"}),
      joined(on(7, "replicas: [1, 2, 3, 1]"), {three}),
      joined(kOneAndThree, {three, "parallel.placement=flat"}),
      joined(kOneAndThree, {three, "training.microbatch=[5, 3]"}),
      joined(kOneAndThree, {three, "schedule=gpipe", "recompute=selective"}),
      joined(kOneAndThree, {three, "recompute=full"}),
      joined(kOneAndThree, {each, "schedule=zb-h1"}),
      joined(kOneAndThree, {three, "schedule=zb-h1"}),
      joined(kOneAndThree, {three, "parallel.virtual_stages=2", "schedule=interleaved"}),
      joined(kOneAndThree, {three, "schedule=zb-v"}),
      joined(kOneAndThree, {three, "recompute=full", "offload={activations: true, horizon: 1}"}),
      joined(kOneAndThree, {"parallel.zero={stage: 3, reshard_after_forward: false}"}),
      joined(kOneAndThree, {"parallel.zero={stage: 3, units: ['*.mlp', '*.attention']}"}),
      joined(kOneAndThree, {"parallel.zero={stage: 3, offload: {optimizer: host}}"}),
      joined(kOneAndThree,
             {"parallel.zero={stage: 3, offload: {optimizer: host, parameters: host}}"}),
      joined(on(8, "replicas: [3, 5]", 8),
             {"parallel.zero={stage: 3, offload: {parameters: host}}", "recompute=full"}),
      joined(on(8, "replicas: [1, 3]"),
             {"parallel.tensor=2", "parallel.sequence_parallel=true", three}),
      joined(on(4, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"), {three}),
      joined(on(6, "cuts: [1, 3], replicas: [2, 4], on: [1, 0, 1]"), {each, "recompute=full"})};
  // Embedding and head of gpt are tied: pipeline ranks with unlike numbers of replicas share them.
  check_features(features);
}

TEST_CASE("groups of each pipeline rank's replicas divide, and neighbours keep pieces") {
  const Sets three = on(6, "replicas: [2, 4]"), six = on(8, "replicas: [2, 6]", 8),
             turned = on(6, "cuts: [1, 3], replicas: [2, 4], on: [1, 0, 1]");
  const auto zero = [](const std::string& of) { return "parallel.zero={" + of + "}"; };
  // Groups of one and two, or three; with [4, 8] of two and four, which two neighbours divide.
  const std::vector<Sets> features = {
      joined(three, {zero("stage: 1, replicate: 2")}),
      joined(six, {zero("stage: 2, replicate: 2")}),
      joined(six, {zero("stage: 2, replicate: 2, reduce: each"), "schedule=zb-h1"}),
      joined(three, {zero("stage: 3, replicate: 2")}),
      joined(six, {zero("stage: 3, replicate: 2"), "recompute=full"}),
      joined(on(10, "replicas: [6, 4]", 8), {zero("stage: 3, replicate: 2, reduce: last")}),
      joined(three, {zero("stage: 3, replicate: 2"), "parallel.placement=flat"}),
      joined(six, {zero("stage: 3, replicate: 2, layout: per-parameter")}),
      joined(three, {zero("stage: 3, replicate: 2, offload: {parameters: host}")}),
      joined(three,
             {zero("stage: 3, replicate: 2"), "parallel.virtual_stages=2", "schedule=interleaved"}),
      joined(turned, {zero("stage: 1, replicate: 2")}),
      joined(turned, {zero("stage: 3, replicate: 2"), "recompute=full"}),
      joined(on(12, "replicas: [2, 4]"), {"parallel.tensor=2", "parallel.sequence_parallel=true",
                                          zero("stage: 3, replicate: 2")}),
      joined(three, {zero("stage: 3, reshard_after_forward: 2")}),
      joined(six, {zero("stage: 3, reshard_after_forward: 2, layout: per-parameter")}),
      joined(six, {zero("stage: 3, reshard_after_forward: 2, reduce: last"), "schedule=zb-v"}),
      joined(turned, {zero("stage: 3, reshard_after_forward: 2"), "schedule=gpipe"}),
      joined(on(12, "replicas: [4, 8]", 8),
             {zero("stage: 3, replicate: 2, reshard_after_forward: 2")})};
  // Embedding and head of gpt are tied.
  check_features(features);
  // Six sequences over four replicas: the groups have four and two.
  const Sets batch = {"training.global_batch=10", "training.microbatch=[6, 4]"};
  const std::string of_sizes = parity_study("gpt", kTraining);
  check_same(run_loopback(of_sizes, batch, {.steps = 2}),
             run_loopback(of_sizes, joined(joined(three, batch), {zero("stage: 3, replicate: 2")}),
                          {.steps = 2}),
             kFp64);
  // Ranks that share sequences divide with them.
  const std::string text =
      parity_study("gpt", "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}");
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  for (const std::string of : {"stage: 3, replicate: 2", "stage: 3, reshard_after_forward: 2",
                               "stage: 3, reshard_after_forward: 4"}) {
    CAPTURE(of);
    check_same(
        one,
        run_loopback(text, joined(on(12, "replicas: [2, 4]"), {"parallel.context=2", zero(of)}),
                     {.steps = 2}),
        kFp64);
  }
}

TEST_CASE("ranks of unlike replicas share sequences") {
  const std::string training = "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";
  const std::vector<Sets> features = {
      {"parallel.context=2"},
      {"parallel.context={degree: 2, method: all-gather, balance: none}", "parallel.zero=1"},
      {"parallel.context={degree: 2, method: ulysses}", "parallel.zero=3", "recompute=full"},
      {"parallel.context=2", "parallel.zero={stage: 2, reduce: each}", "schedule=zb-h1"},
      {"parallel.context=2", "data.documents={lengths: {mean: 5, min: 2}, seed: 11}"}};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, training);
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      const bool packed = feature.back().starts_with("data.documents");
      const LoopbackRun one =
          run_loopback(text, packed ? Sets{feature.back()} : Sets{}, {.steps = 2});
      check_same(one, run_loopback(text, joined(on(8, "replicas: [1, 3]"), feature), {.steps = 2}),
                 kFp64);
    }
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    const Sets both = {"parallel.context=2", "parallel.tensor=2",
                       "parallel.sequence_parallel=true"};
    check_same(one, run_loopback(text, joined(on(12, "replicas: [1, 2]"), both), {.steps = 2}),
               kFp64);
  }
}

TEST_CASE("forwards and backwards of unlike numbers of sequences run together") {
  const Sets batch = {"training.global_batch=18", "training.microbatch=[3, 4, 4, 3, 4]"};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, "precision: fp64, clip_norm: 0.01, dropout: 0");
    const LoopbackRun one = run_loopback(text, batch, {.steps = 2});
    for (const Sets& feature : std::vector<Sets>{
             on(5, "replicas: [3, 2]"), on(4, "replicas: [1, 3]"),
             joined(on(8, "replicas: [1, 3]"), {"parallel.tensor=2"}),
             joined(on(5, "replicas: [3, 2]"), {"recompute=full", "parallel.zero=1"})}) {
      CAPTURE(family, feature);
      const Sets sets = joined(joined(feature, batch), {"schedule=dualpipe-v"});
      check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("what all replicas have alike goes to each, and its gradients come back once") {
  // T5's relative biases go whole from stage to stage: one replica leads three, or none.
  const std::string text = parity_study("t5", kTraining);
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  for (const Sets& feature :
       {on(4, "cuts: [1], replicas: [1, 3]"), on(4, "cuts: [3], replicas: [3, 1]"),
        on(7, "replicas: [1, 2, 3, 1]"), on(8, "cuts: [1], replicas: [3, 5]", 8),
        on(8, "cuts: [3], replicas: [5, 3]", 8),
        joined(on(4, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"), {"recompute=full"}),
        joined(on(8, "cuts: [1], replicas: [3, 1]"),
               {"parallel.tensor=2", "parallel.sequence_parallel=true", "parallel.zero=1"})}) {
    CAPTURE(feature);
    check_same(one, run_loopback(text, feature, {.steps = 2}), kFp64);
  }
}

TEST_CASE("replicas of as many sequences add up unlike numbers of summands") {
  // Ten sequences on 2 replicas, 5 each, and on 8, 2 2 1 1 1 1 1 1: the one has three peers, the
  // other five.
  const std::string text = parity_study("t5", kTraining);
  const Sets batch = {"training.global_batch=18", "training.microbatch=[8, 10]"};
  check_same(run_loopback(text, batch, {.steps = 2}),
             run_loopback(text, joined(on(10, "cuts: [3], replicas: [2, 8]"), batch), {.steps = 2}),
             kFp64);
}

TEST_CASE("an overflow on one of unlike replicas skips the step on all") {
  // Weights so large that scaled gradients overflow fp16: the scale is halved until they do not.
  const std::string text = parity_study("gpt", "precision: fp16, clip_norm: 1.0, lr: {peak: 0.01}");
  const LoopbackRun one = run_loopback(text, {}, {.steps = 4, .noise = 1});
  const LoopbackRun many = run_loopback(text, kOneAndThree, {.steps = 4, .noise = 1});
  CHECK(many.loss_scales == one.loss_scales);
  CHECK(many.loss_scales.back() < many.loss_scales.front());
}

TEST_CASE("a run of unlike replicas goes on from other layouts, and they from it") {
  const std::vector<Sets> layouts = {
      {},
      on(8, "replicas: [3, 5]", 8),
      on(4, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"),
      joined(on(8, "replicas: [3, 5]", 8), {"parallel.zero=1"}),
      joined(on(8, "replicas: [3, 5]", 8), {kOwners}),
      joined(on(8, "replicas: [3, 5]", 8), {"parallel.zero=3"}),
      joined(on(6, "replicas: [2, 4]"), {"parallel.zero={stage: 3, replicate: 2}"}),
      joined(on(6, "replicas: [2, 4]"), {"parallel.zero={stage: 3, reshard_after_forward: 2}"}),
      {"cluster.ranks=2", "partition={cuts: [1, 3], on: [0, 1, 0]}"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.pipeline=4"},
      {"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}", kAtpSharding},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero={stage: 1, by: parameter}"}};
  check_goes_on(parity_study("gpt", kTraining), kOneAndThree, layouts);
}

}  // namespace trainyard::replicas_test
