// Stages that begin anywhere train as one device does.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"

namespace trainyard::cuts_test {

namespace {

const std::string kAdamW = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

Sets stages(int ranks, const std::string& partition, const std::string& schedule = "1f1b") {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.pipeline=" + std::to_string(ranks),
          "partition=" + partition, "schedule=" + schedule};
}

const std::string kOps = "{method: cost, between: ops}";

}  // namespace

TEST_CASE("transformers cut within layers train as one device does") {
  const std::vector<Sets> layouts = {
      stages(2, "[decoder.layers.1.mlp]"),
      stages(2, "[decoder.layers.1.mlp]", "zb-h1"),
      joined(stages(2, "[decoder.layers.1.mlp]"), {"recompute=full"}),
      joined(stages(2, "[decoder.layers.1.mlp]"), {"recompute=selective"}),
      stages(4, kOps),
      stages(4, kOps, "gpipe"),
      joined(stages(4, kOps), {"recompute=full"}),
      joined(stages(2, kOps, "interleaved"), {"parallel.virtual_stages=2"}),
      joined(stages(2, kOps, "zb-v"), {"parallel.virtual_stages=2"}),
      joined(stages(2, kOps), {"cluster.ranks=4", "parallel.tensor=2"}),
      joined(stages(2, kOps),
             {"cluster.ranks=4", "parallel.tensor=2", "parallel.sequence_parallel=true"}),
      joined(stages(2, kOps), {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"}),
      joined(stages(2, "[decoder.layers.1.mlp]"),
             {"cluster.ranks=4", "parallel.data=2", "parallel.zero=3"}),
      {"cluster.ranks=4", "partition={cuts: [decoder.layers.1.mlp], replicas: [1, 3]}",
       "training.microbatch=4"}};
  for (const std::string family : {"gpt", "t5", "llama"}) {
    const std::string training =
        family == "llama" ? "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" : kAdamW;
    const LoopbackRun one = run_loopback(parity_study(family, training), {}, {.steps = 2});
    for (const Sets& layout : layouts) {
      CAPTURE(family, layout);
      check_same(one, run_loopback(parity_study(family, training), layout, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("networks of images cut within blocks train as one device does") {
  check_all(study_of("{family: resnet, depth: 18, image_size: 48, classes: 5, batch_norm: "
                     "synchronised}",
                     8, 2),
            {stages(2, kOps), stages(4, kOps, "gpipe"),
             joined(stages(2, kOps, "zb-h1"), {"recompute=full"})});
  check_all(study_of("{family: unet, hidden: 8, depth: 2, image_size: 16}", 8, 2),
            {stages(2, kOps), stages(3, kOps)});
}

}  // namespace trainyard::cuts_test
