// Numbers that ranks do not divide: under a sharding of the user's own they train as one device
// does, beside every feature, and their checkpoints are read by other layouts and the other way
// round.
#include "engine/sharding/uneven_pieces.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::uneven_pieces_test {

namespace {

const std::string kTraining = "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}";
/// Llama drops out nothing.
std::string study_of(const std::string& family) {
  return parity_study(
      family, family == "llama" ? "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" : kTraining);
}

/// Four ranks have 16 15 15 15 of 61 words, 13 13 12 12 of 50 features, 3 2 2 2 of 9 tokens.
const Sets kNumbers = {"model.vocab=61", "model.pad_vocab_to=61", "model.ffn=50",
                       "model.seq_len=9"};
/// What Megatron does to the first product; the rest is its own.
const Sets kOwn = {"cluster.ranks=4", "parallel.tensor=4",
                   "sharding={'*.mlp.fc1': {weight: [tp, R], output: '[R, R, tp]'}}"};

/// Dims of values of which ranks have unlike many elements.
int num_uneven(const Program& program) {
  int values = 0;
  for (const Value& value : program.values) {
    if (value.spec != kNoIndex && is_uneven(program.specs[value.spec], program.mesh)) ++values;
  }
  return values;
}

void check_layout(const std::string& family, const LoopbackRun& one, const Sets& sets) {
  CAPTURE(family, sets);
  const LoopbackRun many = run_loopback(study_of(family), joined(kNumbers, sets), {.steps = 2});
  CHECK(num_uneven(many.program) > 0);
  check_same(one, many, kFp64);
}

}  // namespace

TEST_CASE("words, features and tokens that ranks do not divide train as one device does") {
  std::vector<Sets> features = around_four_ranks();
  for (const Sets& more :
       {Sets{}, Sets{"parallel.sequence_parallel=true"},
        Sets{"parallel.sequence_parallel=true", "recompute=full"}, Sets{"recompute=selective"},
        Sets{"recompute=full", "offload={activations: true, horizon: 1}"},
        Sets{"cluster.ranks=8", "parallel.pipeline=2", "parallel.scatter_gather=true",
             "parallel.sequence_parallel=true"}})
    features.push_back(more);
  const LoopbackRun one = run_loopback(study_of("gpt"), kNumbers, {.steps = 2});
  for (const Sets& feature : features) check_layout("gpt", one, joined(kOwn, feature));
}

TEST_CASE("gated features, and both of two axes, that do not divide train as one device does") {
  const Sets gated = {"cluster.ranks=4", "parallel.tensor=4",
                      "sharding={'*.mlp.gate_up': {weight: [tp, R]}}"};
  for (const std::string family : {"llama", "bert", "t5"}) {
    const LoopbackRun one = run_loopback(study_of(family), kNumbers, {.steps = 2});
    check_layout(family, one, family == "llama" ? gated : kOwn);
  }
  Sets odd = kNumbers;
  odd.emplace_back("model.ffn=49");
  const LoopbackRun one = run_loopback(study_of("gpt"), odd, {.steps = 2});
  check_layout(
      "gpt", one,
      {"model.ffn=49", "cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}", kAtpSharding});
}

TEST_CASE("a run of uneven pieces goes on from other layouts, and they from it") {
  std::string text = study_of("gpt");
  const std::string size = "vocab: 62, seq_len: 8";
  text.replace(text.find(size), size.size(), "vocab: 61, pad_vocab_to: 61, ffn: 50, seq_len: 9");
  const std::vector<Sets> layouts = {
      {},
      kOwn,
      {"cluster.ranks=2", "parallel.pipeline=2"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      joined(kOwn, {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"}),
      joined(kOwn, {"cluster.ranks=8", "parallel.data=2", "parallel.zero=3"})};
  check_goes_on(text, kOwn, layouts);
}

TEST_CASE("uneven pieces train over Gloo as one device does") {
  const std::string text = study_of("gpt");
  const LoopbackRun one = run_loopback(text, kNumbers, {.steps = 2});
  LoopbackOptions over_gloo;
  over_gloo.steps = 2;
  over_gloo.over_gloo = true;
  const Sets sets = joined(joined(kNumbers, kOwn), {"parallel.sequence_parallel=true"});
  check_same(one, run_loopback(text, sets, over_gloo), kFp64);
}

}  // namespace trainyard::uneven_pieces_test
