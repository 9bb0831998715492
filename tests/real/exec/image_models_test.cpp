// Models of images train as one device does: cut anywhere, over replicas of equal and unlike
// numbers, with batch norms over all samples of a microbatch.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/parity.h"

namespace trainyard {

namespace {

std::string study_of(const std::string& model, int batch, int microbatch,
                     const std::string& more = "") {
  return "model: " + model +
         "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: " + std::to_string(batch) +
         ", microbatch: " + std::to_string(microbatch) +
         ", precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" + more +
         "}\ndata: {path: generated}\n";
}

void check_all(const std::string& study, const std::vector<Sets>& layouts, int steps = 1) {
  const LoopbackRun one = run_loopback(study, {}, {.steps = steps});
  for (const Sets& layout : layouts) {
    CAPTURE(layout);
    check_same(one, run_loopback(study, layout, {.steps = steps}), kFp64);
  }
}

Sets pipeline(int ranks, const std::string& schedule) {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.pipeline=" + std::to_string(ranks),
          "partition={method: uniform, uneven: true}", "schedule=" + schedule};
}

/// `microbatch`: of each replica, so that all microbatches hold the samples that one rank's do.
Sets replicas(int ranks, int microbatch) {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.data=" + std::to_string(ranks),
          "training.microbatch=" + std::to_string(microbatch)};
}

}  // namespace

TEST_CASE("a vision transformer trains as one device does") {
  const std::string study = study_of(
      "{family: vit, layers: 4, hidden: 32, heads: 4, image_size: 12, patch_size: 4, classes: 5}",
      8, 2);
  check_all(
      study,
      {replicas(2, 2),
       {"cluster.ranks=2", "parallel.tensor=2"},
       {"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}"},
       {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
       {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_overlap=block"},
       {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1", "training.microbatch=1"},
       pipeline(4, "1f1b"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [1], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a residual network trains as one device does") {
  const std::string model =
      "{family: resnet, depth: 18, image_size: 48, classes: 5, batch_norm: synchronised}";
  check_all(study_of(model, 8, 2), {pipeline(2, "1f1b"),
                                    pipeline(4, "gpipe"),
                                    joined(pipeline(2, "zb-h1"), {"recompute=full"}),
                                    {"cluster.ranks=2", "partition={cuts: [2, 5], on: [0, 1, 0]}"},
                                    {"cluster.ranks=2", "parallel.tensor=2",
                                     "sharding={'layers.*.conv_1': {weight: [tp, R, R, R]}}"},
                                    {"cluster.ranks=2", "parallel.tensor=2",
                                     "sharding={'layers.*.conv_2': {weight: [R, tp, R, R]}}"}});
  check_all(study_of(model, 8, 8),
            {replicas(2, 4),
             joined(replicas(4, 2), {"parallel.zero=1"}),
             {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "training.microbatch=4"},
             {"cluster.ranks=4", "partition={cuts: [3], replicas: [1, 3]}"}});
}

TEST_CASE("replicas that normalise by themselves train as one that does so for each") {
  // One rank's microbatches of 4 samples are normalised as those of each of two replicas are.
  const std::string model = "{family: resnet, depth: 18, image_size: 48, classes: 5}";
  check_all(study_of(model, 8, 4), {replicas(2, 4)});
}

TEST_CASE("a dense network and a stack of convolutions train as one device does") {
  check_all(study_of("{family: densenet, depth: 121, image_size: 64, classes: 5, batch_norm: "
                     "synchronised}",
                     4, 4),
            {pipeline(4, "1f1b"), replicas(2, 2)});
  check_all(study_of("{family: vgg, depth: 11, image_size: 32, classes: 5}", 4, 2),
            {pipeline(2, "1f1b"), replicas(2, 2), {"cluster.ranks=2", "parallel.tensor=2"}});
}

TEST_CASE("a Swin Transformer trains as one device does") {
  // Grids of 16, 8, 4 and 2 patches in windows of 2: all but the last move them.
  const std::string model =
      "{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: 2, window_size: "
      "2, classes: 5}";
  check_all(study_of(model, 4, 2, ", dropout: 0.2"),
            {replicas(2, 2), {"cluster.ranks=2", "parallel.tensor=2"}, pipeline(2, "1f1b")});
  check_all(
      study_of(model, 8, 2),
      {replicas(2, 2),
       replicas(4, 2),
       {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1", "training.microbatch=1"},
       {"cluster.ranks=2", "parallel.tensor=2"},
       pipeline(4, "1f1b"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[3]"},
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [3], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a U-Net trains as one device does") {
  const std::string study = study_of(
      "{family: unet, depth: 2, hidden: 8, image_size: 16, channels: 3, classes: 5}", 8, 2);
  check_all(
      study,
      {replicas(2, 2),
       joined(replicas(4, 2), {"parallel.zero=1"}),
       pipeline(2, "1f1b"),
       pipeline(3, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[2]"},
       {"cluster.ranks=2", "partition={cuts: [1, 4], on: [0, 1, 0]}"},
       {"cluster.ranks=2", "parallel.tensor=2",
        "sharding={'layers.*.conv_1': {weight: [tp, R, R, R]}}"},
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [2], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a run of a model of images goes on from other layouts, and they from it") {
  const std::string training = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}";
  const auto study = [&](const std::string& model) {
    return "model: " + model +
           "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 8, microbatch: 8, " +
           training + "}\ndata: {path: synthetic}\n";
  };
  check_goes_on(study("{family: vit, layers: 4, hidden: 32, heads: 4, image_size: 12, patch_size: "
                      "4, classes: 5}"),
                {"cluster.ranks=2", "parallel.tensor=2"},
                {pipeline(2, "1f1b"), joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: "
                      "2, window_size: 2, classes: 5}"),
                {"cluster.ranks=2", "parallel.tensor=2"}, {pipeline(2, "1f1b")});
  check_goes_on(study("{family: unet, depth: 2, hidden: 8, image_size: 16, classes: 5}"),
                pipeline(2, "1f1b"), {joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: resnet, depth: 18, image_size: 32, classes: 5, batch_norm: "
                      "synchronised}"),
                pipeline(2, "1f1b"), {joined(replicas(2, 4), {"parallel.zero=1"})});
}

}  // namespace trainyard
