// Method atp trains as one device does, on every mesh, in every family that it splits, beside what
// it may be combined with; and its checkpoints are read by other layouts and the other way round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::atp_test {

namespace {

const std::string kTraining = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}, dropout: ";

std::string study(const std::string& family) {
  return parity_study(family, kTraining + (family == "llama" ? "0" : "0.1"));
}

/// A first microbatch, one between and a last: without stages or replicas no other is unlike these.
const Sets kThree = {"training.global_batch=3"};

/// On so many ranks of one replica and one stage.
Sets on_mesh(int d1, int d2) {
  const std::string ranks = std::to_string(d1 * d2);
  return {"cluster.ranks=" + ranks, "parallel.tensor=" + ranks,
          "parallel.tensor_method={name: atp, mesh: [" + std::to_string(d1) + ", " +
              std::to_string(d2) + "]}"};
}

}  // namespace

TEST_CASE("method atp trains as one device does, on every mesh and in every family") {
  for (const std::string family : {"gpt", "bert", "bert-next", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), kThree, {.steps = 2});
    for (const auto& [d1, d2] : {std::pair{2, 2}, {1, 4}, {4, 1}, {1, 2}}) {
      for (const std::string flash : {"auto", "false"}) {
        CAPTURE(family, d1, d2, flash);
        const Sets sets =
            joined(on_mesh(d1, d2), joined(kThree, {"training.flash_attention=" + flash}));
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("method atp beside sequence parallelism trains as one device does") {
  for (const std::string family : {"gpt", "bert", "bert-next", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), kThree, {.steps = 2});
    for (const auto& [d1, d2] : {std::pair{2, 2}, {1, 4}, {4, 1}}) {
      for (const Sets& more :
           {Sets{}, Sets{"recompute=full"}, Sets{"training.flash_attention=false"}}) {
        CAPTURE(family, d1, d2, more);
        const Sets sets = joined(joined(on_mesh(d1, d2), kThree),
                                 joined(more, {"parallel.sequence_parallel=true"}));
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("8 ranks of method atp train as one device does") {
  const std::string text = parity_study("llama", kTraining + "0");
  const Sets model = {
      "model={family: llama, layers: 2, hidden: 64, heads: 16, kv_heads: 8, ffn: "
      "96, vocab: 62, seq_len: 8, head_norm: true}"};
  const LoopbackRun one = run_loopback(text, model, {.steps = 2});
  for (const auto& [d1, d2] : {std::pair{4, 2}, {2, 4}, {1, 8}}) {
    CAPTURE(d1, d2);
    check_same(one, run_loopback(text, joined(model, on_mesh(d1, d2)), {.steps = 2}), kFp64);
    const Sets sequence =
        joined(joined(model, on_mesh(d1, d2)), {"parallel.sequence_parallel=true"});
    check_same(one, run_loopback(text, sequence, {.steps = 2}), kFp64);
  }
}

TEST_CASE("the first axis alone divides the sequence and the MLP's features of method atp") {
  const std::string text = parity_study("llama", kTraining + "0");
  // 12 = 4 x 3 positions and 100 = 4 x 25 features on 8 ranks.
  const Sets model = {
      "model={family: llama, layers: 2, hidden: 64, heads: 16, kv_heads: 8, ffn: 100, vocab: 62, "
      "seq_len: 12}"};
  const LoopbackRun one = run_loopback(text, model, {.steps = 2});
  for (const auto& [d1, d2] : {std::pair{4, 2}, {2, 4}}) {
    CAPTURE(d1, d2);
    const Sets sets = joined(joined(model, on_mesh(d1, d2)), {"parallel.sequence_parallel=true"});
    check_same(one, run_loopback(text, sets, {.steps = 2}), kFp64);
  }
}

TEST_CASE("method atp trains as one device does beside every feature") {
  std::vector<Sets> features = {
      {"recompute=full"},
      {"recompute=selective"},
      {"recompute={method: selective, modules: [core-attn, layernorm]}"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"training.microbatch=2", "parallel.tensor_overlap=block"},
      {"training.microbatch=2", "parallel.tensor_overlap=across-blocks"},
      {"training.microbatch=4", "parallel.tensor_overlap={chunks: 4}"},
      {"parallel.tensor_overlap=linear"},
      {"training.microbatch=2", "parallel.tensor_overlap=block", "parallel.sequence_parallel=true"},
      {"recompute=selective", "parallel.sequence_parallel=true"},
      {"training.microbatch=[2, 1, 1, 3, 1]"}};
  features.insert(features.end(), around_four_ranks().begin(), around_four_ranks().end());
  for (const std::string family : {"gpt", "llama"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      const Sets sets = joined(on_mesh(2, 2), feature);
      check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("a run of method atp goes on from other layouts, and they from it") {
  const std::vector<Sets> layouts = {
      {},
      on_mesh(2, 2),
      on_mesh(1, 4),
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
      joined(on_mesh(2, 2), {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"})};
  check_goes_on(study("gpt"), on_mesh(2, 2), layouts);
}

}  // namespace trainyard::atp_test
