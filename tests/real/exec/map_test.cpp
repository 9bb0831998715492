// What method map chooses trains as one device does, whatever the links make it choose; and so do
// lists of splits that are written by hand.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::map_test {

namespace {

const std::string kTraining = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}, dropout: ";

std::string study(const std::string& family) {
  return parity_study(family, kTraining + (family == "llama" ? "0" : "0.1"));
}

/// Samples of a microbatch, which axes of the mesh may divide.
const Sets kTwo = {"training.microbatch=2"};

Sets on_mesh(const std::string& mesh, int ranks, const std::string& more = "") {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.tensor=" + std::to_string(ranks),
          "parallel.tensor_method={name: map, mesh: " + mesh + more + "}"};
}

}  // namespace

TEST_CASE("what map chooses trains as one device does in every family") {
  for (const std::string family : {"gpt", "bert", "bert-next", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), kTwo, {.steps = 2});
    for (const std::string flash : {"auto", "false"}) {
      for (const Sets& mesh : {on_mesh("[2, 2]", 4), on_mesh("[4]", 4), on_mesh("[2]", 2)}) {
        CAPTURE(family, flash, mesh);
        const Sets sets = joined(joined(mesh, kTwo), {"training.flash_attention=" + flash});
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("what map chooses around a sharding of the study's own trains as one device does") {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string layer = family == "gpt" ? "fc1" : "gate_up";
    const LoopbackRun one = run_loopback(study(family), kTwo, {.steps = 2});
    for (const std::string given :
         {"{strategy: {o: tp0, i: tp1}}", "{strategy: {d0: tp1, o: tp0}}"}) {
      CAPTURE(family, given);
      const Sets sets = joined(on_mesh("[2, 2]", 4),
                               {kTwo[0], "sharding={'*.mlp." + layer + "': " + given + "}"});
      check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("what map chooses for images trains as one device does") {
  const std::string map = "parallel.tensor_method=map";
  const std::vector<Sets> ranks = {
      {"cluster.ranks=4", "parallel.tensor=4", map},
      {"cluster.ranks=2", "parallel.tensor=2", map},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2", "training.microbatch=4", map}};
  check_all(
      study_of("{family: vit, layers: 2, hidden: 32, heads: 4, image_size: 12, patch_size: 4, "
               "classes: 8}",
               8, 8),
      ranks);
  check_all(study_of("{family: resnet, depth: 18, image_size: 32, classes: 8, batch_norm: "
                     "synchronised}",
                     8, 8),
            ranks);
  check_all(study_of("{family: densenet, depth: 121, image_size: 32, classes: 8, batch_norm: "
                     "synchronised}",
                     4, 4),
            {ranks[0]});
}

TEST_CASE("what map chooses for other models trains as one device does") {
  const std::vector<Sets> ranks = {
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method=map"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_method=map"}};
  check_all(study_of("{family: ncf, layers: 3, hidden: 4, users: 32, items: 20}", 16, 4), ranks);
  check_all(study_of("{family: mamba2, layers: 2, hidden: 16, head_dim: 8, state_size: 6, "
                     "chunk_size: 4, vocab: 40, seq_len: 8}",
                     8, 4),
            ranks);
  check_all(study_of("{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: "
                     "2, window_size: 2, classes: 4}",
                     8, 4),
            ranks);
  check_all(study_of("{family: unet, depth: 2, hidden: 8, image_size: 16, classes: 5}", 8, 4),
            ranks);
  check_all(study_of("{family: clip, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 6, "
                     "image_layers: 2, image_hidden: 16, image_heads: 4, image_size: 8, "
                     "patch_size: 4, projection_dim: 8, contrast: 4}",
                     8, 8),
            ranks);
}

TEST_CASE("splits of the batch, of heads and of the sequence over one mesh train as one device") {
  // Rows over tp0; heads and features over tp1; what fc2 makes over rows and the sequence.
  const std::string ops =
      ", ops: {\"*.layer_norm\": {strategy: {d0: [tp0], d1: [tp1]}}, \"*.qkv.linear\": {strategy: "
      "{d0: [tp0], o: [tp1]}}, \"*.attention.attention\": {strategy: {b: [tp0], g: [tp1]}}, "
      "\"*.proj.linear\": {strategy: {d0: [tp0], i: [tp1]}}, \"*.fc1.linear\": {strategy: {d0: "
      "[tp0], o: [tp1]}}, \"*.gelu\": {strategy: {d0: [tp0], d2: [tp1]}}, \"*.fc2.linear\": "
      "{strategy: {d0: [tp0], i: [tp1]}, result: \"[tp0, tp1, R]\"}, \"*.add:1\": {strategy: {d0: "
      "[tp0], d1: [tp1]}}, \"embedding.tokens.embedding\": {strategy: {d0: [tp1], v: [tp0]}}, "
      "\"lm_head.linear\": {strategy: {d0: [tp1], o: [tp0]}}}";
  const LoopbackRun one = run_loopback(study("gpt"), kTwo, {.steps = 2});
  check_same(one, run_loopback(study("gpt"), joined(on_mesh("[2, 2]", 4, ops), kTwo), {.steps = 2}),
             kFp64);
}

TEST_CASE("map trains as one device does beside every feature") {
  const std::vector<Sets> features = {
      {"recompute=full"},
      {"recompute=selective"},
      {"recompute={modules: ['*.mlp']}"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=2"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=3"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=zb-h1"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=dualpipe-v"}};
  for (const std::string family : {"gpt", "llama"}) {
    const LoopbackRun one = run_loopback(study(family), kTwo, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      const Sets sets = joined(joined(on_mesh("[2, 2]", 4), kTwo), feature);
      check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("a run of method map goes on from other layouts, and they from it") {
  const std::vector<Sets> layouts = {
      {},
      on_mesh("[2, 2]", 4),
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"}};
  check_goes_on(study("gpt"), on_mesh("[2, 2]", 4), layouts);
}

}  // namespace trainyard::map_test
