// Microbatches of unequal size train as one device does: every sequence counts alike, draws its own
// masks, and is read once.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::microbatch_sizes_test {

namespace {

const std::string kSgd =
    "precision: fp64, dropout: 0.1, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: "
    "0";

}  // namespace

TEST_CASE("unequal microbatches train as one device does") {
  // One device runs the 8 sequences one at a time.
  const std::vector<Sets> layouts = {
      {"training.microbatch=[2, 3, 3]"},
      {"training.microbatch=[1, 3]", "cluster.ranks=2", "parallel.data=2", "parallel.zero=1"},
      {"training.microbatch=[3, 1]", "cluster.ranks=2", "parallel.data=2",
       "parallel.zero={stage: 1, by: parameter}"},
      {"training.microbatch=[2, 1, 4, 1]", "cluster.ranks=2", "parallel.pipeline=2"},
      {"training.microbatch=[3, 2, 2, 1]", "cluster.ranks=4", "parallel.pipeline=4",
       "schedule=zb-h1"},
      {"training.microbatch=[2, 2, 1, 3]", "cluster.ranks=2", "parallel.pipeline=2",
       "schedule=zb-v", "parallel.virtual_stages=2"},
      {"training.microbatch=[1, 2, 3, 2]", "cluster.ranks=4", "parallel.pipeline=2",
       "parallel.tensor=2", "parallel.sequence_parallel=true", "recompute=full",
       "offload={activations: true, horizon: 1}"}};
  for (const std::string family : {"gpt", "bert-next", "t5"}) {
    const LoopbackRun one = run_loopback(parity_study(family, kSgd), {}, {.steps = 2});
    for (const Sets& sets : layouts) {
      CAPTURE(family, sets);
      check_same(one, run_loopback(parity_study(family, kSgd), sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("unequal microbatches go over Gloo as in memory") {
  const Sets sets = {"training.microbatch=[2, 1, 4, 1]", "cluster.ranks=2", "parallel.pipeline=2"};
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  check_same(run_loopback(parity_study("gpt", kSgd), sets, {.steps = 2}),
             run_loopback(parity_study("gpt", kSgd), sets, over_gloo), kFp64);
}

}  // namespace trainyard::microbatch_sizes_test
