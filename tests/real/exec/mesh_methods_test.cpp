// Methods summa-2d, summa-2.5d and 3d train as one device does, in every family that they split and
// beside what they may be combined with; and so does a study's own sharding whose weights are
// stored otherwise than products use them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::exec_mesh_methods_test {

namespace {

const std::string kTraining = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}, dropout: ";

std::string study(const std::string& family) {
  return parity_study(family, kTraining + (family == "llama" ? "0" : "0.1"));
}

/// On so many ranks of one replica and one stage; 8 ranks take 4 samples at once.
Sets by(const std::string& method, int ranks) {
  const std::string number = std::to_string(ranks);
  return {"cluster.ranks=" + number, "parallel.tensor=" + number,
          "parallel.tensor_method=" + method,
          ranks == 8 ? "training.microbatch=4" : "training.microbatch=2"};
}

struct Trial {
  std::string method;
  int ranks;
};
const std::vector<Trial> kTrials = {{"summa-2d", 4}, {"summa-2.5d", 8}, {"3d", 8}};

}  // namespace

TEST_CASE("mesh methods train as one device does, in every family") {
  for (const std::string family : {"gpt", "bert", "bert-next", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Trial& trial : kTrials) {
      for (const std::string flash : {"auto", "false"}) {
        CAPTURE(family, trial.method, flash);
        const Sets sets =
            joined(by(trial.method, trial.ranks), {"training.flash_attention=" + flash});
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("mesh methods train models of images as one device does") {
  // 6 classes are divided by the ranks of features, 5 are not.
  for (const std::string classes : {"6", "5"}) {
    check_all(
        study_of("{family: vit, layers: 2, hidden: 32, heads: 4, image_size: 12, patch_size: "
                 "4, classes: " +
                     classes + "}",
                 8, 4),
        {joined(by("summa-2d", 4), {"training.microbatch=4"}), by("summa-2.5d", 8), by("3d", 8)},
        2);
  }
}

TEST_CASE("mesh methods train as one device does beside other features") {
  const std::vector<Sets> features = {{"recompute=full"},
                                      {"recompute=selective"},
                                      {"recompute=full", "offload={activations: true, horizon: 1}"},
                                      {"training.microbatch=[4, 4]"}};
  for (const std::string family : {"gpt", "llama"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Trial& trial : kTrials) {
      std::vector<Sets> all = features;
      if (trial.ranks == 4)
        all.insert(all.end(), around_four_ranks().begin(), around_four_ranks().end());
      for (const Sets& feature : all) {
        CAPTURE(family, trial.method, feature);
        const Sets sets = joined(by(trial.method, trial.ranks), feature);
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("a run of a mesh method goes on from other layouts, and they from it") {
  const std::vector<Sets> layouts = {
      {},
      {"cluster.ranks=2", "parallel.tensor=2"},
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method={name: atp, mesh: [2, 2]}"},
      by("3d", 8)};
  check_goes_on(study("gpt"), by("summa-2d", 4), layouts);
}

TEST_CASE("weights that a study stores otherwise than it uses them train as one device does") {
  // Stored over both axes, used over the first: gathered along the second in every microbatch.
  const std::vector<std::string> shardings = {
      "{\"*.mlp.fc1\": {weight: '[tp0, tp1]', strategy: {o: tp0, d0: tp1}}}",
      "{\"*.mlp.fc2\": {weight: '[tp1, tp0]', strategy: {i: tp0, entered: tp1}}}",
      "{\"embedding.tokens\": {weight: '[tp0, tp1]', strategy: {v: tp0, d0: tp1}}}"};
  const std::string text = study("gpt");
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  for (const std::string& sharding : shardings) {
    for (const Sets& more : {Sets{}, Sets{"recompute=full"}}) {
      CAPTURE(sharding, more);
      const Sets sets = joined({"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}",
                                "training.microbatch=2", "sharding=" + sharding},
                               more);
      check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
    }
  }
}

}  // namespace trainyard::exec_mesh_methods_test
