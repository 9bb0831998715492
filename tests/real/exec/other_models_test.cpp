// Models of neither text that attends nor images train as one device does.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/real/exec/as_one_device.h"

namespace trainyard::other_models_test {

TEST_CASE("a model of users and items trains as one device does") {
  const std::string study =
      study_of("{family: ncf, layers: 3, hidden: 4, users: 30, items: 20}", 16, 4);
  check_all(
      study,
      {replicas(2, 4),
       joined(replicas(4, 4), {"parallel.zero=1"}),
       pipeline(2, "1f1b"),
       pipeline(3, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[1]"},
       {"cluster.ranks=2", "partition={cuts: [1, 2], on: [0, 1, 0]}"},
       {"cluster.ranks=2", "parallel.tensor=2",
        "sharding={'tower.layers.*': {weight: [tp, R]}, 'factors.users': {weight: [R, tp]}}"},
       {"cluster.ranks=4", "training.microbatch=8", "partition={cuts: [2], replicas: [1, 3]}"},
       {"cluster.ranks=4", "training.microbatch=8", "partition={cuts: [2], replicas: [3, 1]}"}},
      3);
}

TEST_CASE("a state space model trains as one device does") {
  const std::string study = study_of(
      "{family: mamba2, layers: 4, hidden: 16, head_dim: 8, state_size: 6, chunk_size: 4, vocab: "
      "40, seq_len: 12}",
      8, 2);
  check_all(
      study,
      {replicas(2, 2),
       joined(replicas(4, 2), {"parallel.zero=1"}),
       pipeline(2, "1f1b"),
       pipeline(4, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[1]"},
       {"cluster.ranks=2", "partition={cuts: [1, 3], on: [0, 1, 0]}"},
       {"cluster.ranks=2", "parallel.tensor=2",
        "sharding={'layers.*.mixer.out_proj': {weight: [R, tp]}}"},
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [2], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("groups of a state space model's heads are split over tensor-parallel ranks") {
  // 8 heads of 4 channels in 4 groups: ranks have two groups each, or one.
  const std::string study = study_of(
      "{family: mamba2, layers: 2, hidden: 16, head_dim: 4, groups: 4, state_size: 3, chunk_size: "
      "4, vocab: 40, seq_len: 12}",
      8, 4);
  const Sets two = {"cluster.ranks=2", "parallel.tensor=2"};
  const Sets four = {"cluster.ranks=4", "parallel.tensor=4"};
  const Sets in_sequence = {"parallel.sequence_parallel=true"};
  check_all(study,
            {two, four, joined(two, in_sequence), joined(four, in_sequence),
             joined(two, {"recompute=full"}), joined(two, {"parallel.tensor_overlap=block"}),
             joined(four, {"parallel.tensor_method=map"}),
             joined(two, {"cluster.ranks=4", "parallel.pipeline=2", "schedule=zb-h1"}),
             joined(two, {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1",
                          "training.microbatch=2"}),
             joined(two, {"cluster.ranks=4", "parallel.data=2", "parallel.zero=3",
                          "training.microbatch=2"})},
            2);
}

TEST_CASE("whatever heads of a state space model forget, its numbers stay finite") {
  // Weights 80 times as large as usual: dt A is from nearly 0 to 1e8 and more a token.
  const std::string study =
      "model: {family: mamba2, layers: 2, hidden: 16, head_dim: 4, state_size: 6, chunk_size: 4, "
      "vocab: 40, seq_len: 12}\ncluster: {preset: local, ranks: 1}\n"
      "training: {global_batch: 8, microbatch: 2, precision: fp32}\ndata: {path: generated}\n";
  const LoopbackRun run = run_loopback(study, {}, {.steps = 3, .noise = 8});
  for (const double loss : run.losses) CHECK(std::isfinite(loss));
  for (const double norm : run.gradient_norms) CHECK((std::isfinite(norm) && norm > 0));
}

TEST_CASE("towers of texts and images train as one device does") {
  // Groups of 2: however the batch is divided, the same samples are told apart.
  const std::string study = study_of(
      "{family: clip, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 6, image_layers: 2, "
      "image_hidden: 24, image_heads: 2, image_size: 12, patch_size: 4, projection_dim: 8, "
      "contrast: 2}",
      16, 4);
  check_all(
      study,
      {replicas(2, 4),
       replicas(4, 2),
       joined(replicas(4, 4), {"parallel.zero=1"}),
       {"cluster.ranks=2", "parallel.tensor=2"},
       {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
       pipeline(2, "1f1b"),
       pipeline(4, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=2", "parallel.pipeline=2", "partition=[1]"},
       {"cluster.ranks=2", "parallel.pipeline=2", "partition=[3]"},
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[2]"},
       {"cluster.ranks=2", "partition={cuts: [1, 3], on: [0, 1, 0]}"},
       {"cluster.ranks=3", "training.microbatch=8", "partition={cuts: [3], replicas: [1, 2]}"},
       {"cluster.ranks=5", "training.microbatch=8", "partition={cuts: [2], replicas: [4, 1]}"}},
      2);
}

TEST_CASE("a run of one of the other families goes on from other layouts, and they from it") {
  const auto study = [](const std::string& model) {
    return "model: " + model +
           "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 8, microbatch: 8, "
           "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}}\ndata: {path: synthetic}\n";
  };
  check_goes_on(study("{family: ncf, layers: 3, hidden: 4, users: 30, items: 20}"),
                pipeline(2, "1f1b"), {joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: mamba2, layers: 2, hidden: 16, head_dim: 8, state_size: 6, "
                      "chunk_size: 4, vocab: 40, seq_len: 8}"),
                pipeline(2, "1f1b"), {joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: clip, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 6, "
                      "image_layers: 2, image_hidden: 24, image_heads: 2, image_size: 12, "
                      "patch_size: 4, projection_dim: 8, contrast: 2}"),
                {"cluster.ranks=2", "parallel.tensor=2"},
                {pipeline(2, "1f1b"), joined(replicas(4, 2), {"parallel.zero=1"})});
}

}  // namespace trainyard::other_models_test
