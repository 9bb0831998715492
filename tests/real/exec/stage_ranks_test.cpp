// Stages on ranks as listed (A B A) train as one device does, beside every feature that they may be
// combined with, and their checkpoints are read by other layouts and the other way round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::stage_ranks_test {

namespace {

const Sets kBack = {"cluster.ranks=2", "partition={cuts: [1, 3], on: [0, 1, 0]}"};
const Sets kFar = {"cluster.ranks=4", "partition={cuts: [1, 2, 3], on: [1, 3, 0, 2]}"};

const std::string kTraining = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

}  // namespace

TEST_CASE("stages on ranks as listed train as one device does") {
  const std::vector<Sets> features = {
      kBack,
      kFar,
      joined(kBack, {"schedule=gpipe"}),
      joined(kBack, {"schedule=opportunistic"}),
      joined(kFar, {"schedule=gpipe", "recompute=selective"}),
      joined(kBack, {"recompute=full"}),
      joined(kBack, {"recompute=full", "offload={activations: true, horizon: 1}"}),
      joined(kBack, {"recompute={method: stage-aware, first: 0.5}"}),
      joined(kBack, {"training.microbatch=[2, 1, 1, 3, 1]"}),
      joined(kBack, {"schedule={method: 1f1b, post_validation: true}"}),
      joined(kBack, {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"}),
      joined(kBack,
             {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"}),
      joined(kBack, {"cluster.ranks=4", "parallel.tensor=2", "parallel.sequence_parallel=true"}),
      joined(kBack, {"cluster.ranks=4", "parallel.tensor=2", "parallel.scatter_gather=false"}),
      joined(kBack, {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}"}),
      joined(kBack, {"cluster.ranks=4", "parallel.tensor=2", "training.microbatch=2",
                     "parallel.tensor_overlap=block"})};
  for (const std::string family : {"gpt", "t5", "bert-next"}) {
    const std::string text = parity_study(family, kTraining);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      check_same(one, run_loopback(text, feature, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("stages on ranks as listed take a sharding of the user's own") {
  const std::string text = parity_study("gpt", kTraining);
  check_same(run_loopback(text, {}, {.steps = 2}),
             run_loopback(text,
                          joined(kBack, {"cluster.ranks=8", "parallel.tensor={tp0: 2, tp1: 2}",
                                         kAtpSharding}),
                          {.steps = 2}),
             kFp64);
}

TEST_CASE("a run with stages on ranks as listed goes on from other layouts, and they from it") {
  const std::vector<Sets> layouts = {
      {},
      kFar,
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.pipeline=4"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero={stage: 1, by: parameter}"}};
  check_goes_on(parity_study("gpt", kTraining), kBack, layouts);
}

}  // namespace trainyard::stage_ranks_test
