// Pairs of a forward and a backward, interleaved in one segment, train as one device does: with
// masks of both microbatches, sizes of both, and what either keeps on the host.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::pairs_test {

TEST_CASE("pairs of microbatches train as one device does") {
  const std::string training =
      "precision: fp64, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: 0, dropout: "
      "0.1";
  const Sets pair = {"schedule=dualpipe-v", "cluster.ranks=4", "parallel.pipeline=2",
                     "parallel.tensor=2"};
  const std::vector<Sets> layouts = {
      {},
      {"recompute=full", "parallel.sequence_parallel=true"},
      {"training.microbatch=[2, 1, 1, 3, 1]"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"training.microbatch=2", "parallel.tensor_overlap=across-blocks"},
      {"training.microbatch=[2, 2, 2, 2]", "parallel.tensor_overlap=block",
       "parallel.sequence_parallel=true", "recompute=selective"}};
  for (const std::string family : {"gpt", "bert-next", "t5"}) {
    const std::string text = parity_study(family, training);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const Sets& layout : layouts) {
      CAPTURE(family, layout);
      Sets sets = pair;
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
    }
  }
}

}  // namespace trainyard::pairs_test
