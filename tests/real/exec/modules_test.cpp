// Modules on devices, called by each other as SageMaker's are (partition: smp), train as one device
// does, and their checkpoints are read by other layouts and the other way round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::modules_test {

namespace {

const std::string kTraining = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";

Sets ranks(int count) {
  return {"cluster.ranks=" + std::to_string(count), "parallel.pipeline=" + std::to_string(count)};
}

Sets modules_on(int count, const std::string& more) {
  return joined(ranks(count), {"schedule=gpipe", "partition={method: smp, " + more + "}"});
}

/// The model on the first device, a layer on the second, whose MLP is on the first again, and so
/// on: A B A B ... within a layer.
const std::string kNested =
    "assign: {\"*layers.1\": 1, \"*layers.1.mlp\": 0, \"*layers.0.mlp\": 1}";

}  // namespace

TEST_CASE("modules that call each other over devices train as one device does") {
  for (const std::string family : {"gpt", "t5", "bert-next"}) {
    const std::string text = parity_study(family, kTraining);
    const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
    for (const std::string routing : {"parent", "direct"}) {
      const std::string by = "routing: " + routing;
      const std::vector<Sets> layouts = {
          modules_on(2, by),
          modules_on(3, by + ", memory_weight: 0.2"),
          modules_on(4, by + ", times: descendants"),
          modules_on(2, by + ", " + kNested),
          joined(modules_on(2, by + ", " + kNested), {"schedule=opportunistic"}),
          joined(modules_on(2, by + ", " + kNested), {"schedule=1f1b"}),
          joined(modules_on(3, by), {"schedule={method: opportunistic, mode: static}"}),
          joined(modules_on(2, by + ", " + kNested), {"recompute=full"}),
          joined(modules_on(3, by), {"recompute=selective"}),
          joined(modules_on(2, by + ", " + kNested), {"training.microbatch=[2, 1, 1, 3, 1]"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"}),
          joined(modules_on(2, by + ", " + kNested), {"cluster.ranks=4", "parallel.tensor=2"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"cluster.ranks=4", "parallel.data=2", "parallel.zero=2"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"cluster.ranks=4", "parallel.data=2", "parallel.zero=3"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"recompute=full", "offload={activations: true, horizon: 1}"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"recompute={method: stage-aware, first: 0.5}"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"schedule={method: 1f1b, post_validation: true}"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"cluster.ranks=4", "parallel.data=2",
                  "parallel.zero={stage: 1, offload: optimizer}"}),
          joined(modules_on(2, by + ", " + kNested),
                 {"cluster.ranks=4", "parallel.tensor=2", "parallel.sequence_parallel=true"})};
      for (const Sets& layout : layouts) {
        CAPTURE(family, layout);
        check_same(one, run_loopback(text, layout, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("images go through modules on devices as through one") {
  const std::string resnet =
      "{family: resnet, depth: 18, image_size: 48, classes: 5, batch_norm: synchronised}";
  const std::string unet = "{family: unet, hidden: 8, depth: 2, image_size: 16}";
  for (const std::string& model : {resnet, unet}) {
    check_all(study_of(model, 8, 2),
              {modules_on(2, "routing: parent"), modules_on(3, "routing: direct"),
               modules_on(4, "memory_weight: 0.2")});
  }
}

TEST_CASE("a run of modules on devices goes on from other layouts, and they from it") {
  check_goes_on(parity_study("t5", kTraining), modules_on(2, kNested),
                {{},
                 modules_on(3, "routing: direct"),
                 {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"}});
}

}  // namespace trainyard::modules_test
