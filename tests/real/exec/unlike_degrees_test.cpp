// Pipeline ranks of unlike tensor degrees train as one device does, and their checkpoints are read
// by other layouts and the other way round.
#include "tests/support/unlike_degrees.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"
#include "tests/real/resumed_run.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::unlike_degrees_test {

namespace {

using Degrees = std::vector<int>;

// Embedding and head of gpt are tied: two pipeline ranks share a weight.
const std::string kLlama =
    parity_study("llama", "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}");
const std::string kGpt =
    parity_study("gpt", "precision: fp64, dropout: 0.1, clip_norm: 0.01, lr: {peak: 0.01}");

struct Trial {
  Degrees degrees;  // none: as `sets` say
  Sets sets = {};
  int data = 1;
  bool over_gloo = false;
};

ResumedLayout layout_of(const std::string& yaml, const Trial& trial) {
  if (trial.degrees.empty()) return {trial.sets};
  const Sets sets = joined(sets_of_degrees(trial.degrees, trial.data), trial.sets);
  return {sets, [=](Program& program) {
            program = unlike_degrees_program(prepare_text(yaml, sets), trial.degrees);
          }};
}

/// Two steps, each as one rank.
void check_trials(const std::string& yaml, const std::vector<Trial>& trials) {
  const LoopbackRun one = run_loopback(yaml, {}, {.steps = 2});
  for (const Trial& trial : trials) {
    CAPTURE(trial.degrees, trial.sets, trial.data);
    const ResumedLayout layout = layout_of(yaml, trial);
    LoopbackOptions options;
    options.steps = 2;
    options.plant = layout.plant;
    options.over_gloo = trial.over_gloo;
    const LoopbackRun many = run_loopback(yaml, layout.sets, options);
    check_same(one, many, kFp64);
    std::int64_t ranks = 0;
    for (const int degree : trial.degrees) ranks += std::int64_t{degree} * trial.data;
    CHECK(many.program.mesh.num_ranks() == ranks);
  }
}

}  // namespace

TEST_CASE("pipeline ranks of unlike tensor degrees train as one device does") {
  const std::string whole = "parallel.scatter_gather=false";
  check_trials(kLlama, {{{1, 2}},
                        {{2, 1}},
                        {{2, 4}},
                        {{4, 1}},
                        {{2, 1, 4}, {"partition=[1, 3]"}},
                        {{1, 2}, {"schedule=gpipe"}},
                        {{2, 1}, {"schedule=gpipe"}},
                        {{2, 4}, {"schedule=gpipe"}},
                        {{1, 2}, {whole}},
                        {{2, 1}, {whole}},
                        {{2, 4}, {whole, "training.microbatch=2"}},
                        {{4, 2}, {"training.microbatch=2"}},
                        {{1, 2}, {}, 2},
                        {{2, 1}, {"schedule=gpipe"}, 2},
                        {{2, 4}, {"parallel.zero=1"}, 2},
                        {{2, 1}, {}, 1, true}});
  // What drops out is told apart by heads, which are other ranks' in each stage.
  check_trials(kGpt, {{{1, 2}},
                      {{2, 1}, {"schedule=gpipe"}},
                      {{4, 2}, {whole}},
                      {{2, 1, 4}, {"partition=[1, 3]"}},
                      {{2, 1, 2}, {"partition=[1, 3]"}},
                      {{1, 2}, {"schedule=zb-h1", "training.microbatch=2"}},
                      {{2, 4}, {"sharding={'*.mlp.fc1': {weight: [tp, R]}}"}},
                      {{2, 1}, {"recompute=full"}, 2}});
}

TEST_CASE("what is cut over heads goes to ranks that have unlike numbers of them") {
  // The relative bias of an encoder's first stage is read by its second, and its gradient comes
  // back.
  const std::string training = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}";
  check_trials(parity_study("t5", training), {{{1, 2}, {"partition=[1]"}},
                                              {{2, 1}, {"partition=[1]"}},
                                              {{4, 2}, {"partition=[1]", "schedule=gpipe"}},
                                              {{1, 2}}});
  check_trials(parity_study("bert-next", training), {{{1, 2}}, {{2, 1}, {}, 2}});
}

TEST_CASE("pipeline ranks of unlike tensor degrees train beside what else a plan has") {
  const std::string sequence = "parallel.sequence_parallel=true";
  const std::vector<Trial> trials = {
      {{1, 2}, {sequence}},
      {{4, 2}, {sequence}},
      {{2, 4}, {sequence, "training.microbatch=2"}},
      {{2, 1}, {sequence, "parallel.zero=1"}, 2},
      {{1, 2}, {"schedule=zb-h1"}},
      {{2, 1}, {"schedule={method: zb-h1, post_validation: true}"}},
      {{1, 2}, {"schedule=interleaved", "parallel.virtual_stages=2"}},
      {{2, 1}, {"schedule=zb-v"}},
      {{1, 2}, {"schedule=dualpipe-v"}},
      {{2, 1}, {"partition={cuts: [1, 3], on: [0, 1, 0]}"}},
      {{1, 2}, {"recompute=full"}},
      {{2, 1}, {"recompute=selective", "training.microbatch=[5, 3]"}},
      {{1, 2}, {"recompute=full", "offload={activations: true, horizon: 1}"}},
      {{2, 1}, {"parallel.tensor_overlap=block", "training.microbatch=2"}},
      {{1, 2}, {"parallel.zero={stage: 1, by: parameter}"}, 2},
      {{2, 1}, {"parallel.zero=2"}, 2},
      {{1, 2}, {"parallel.zero=3"}, 2},
      {{2, 1}, {"parallel.zero={stage: 3, layout: per-parameter}"}, 2},
      {{2, 1}, {"parallel.zero={stage: 1, offload: {optimizer: host}}"}, 2},
      {{1, 2}, {"framework=megatron-lm", "model.pad_vocab_to=64"}}};
  check_trials(kLlama, trials);
}

TEST_CASE(
    "checkpoints of unlike tensor degrees are read by other layouts, and the other way round") {
  const Trial unlike = {{1, 2}, {}};
  const std::vector<Trial> others = {{{}, {}},
                                     {{2, 1}, {"parallel.zero=1"}, 2},
                                     {{2, 4}, {"parallel.sequence_parallel=true"}},
                                     {{}, {"cluster.ranks=4", "parallel.tensor=4"}}};
  for (const std::string& yaml : {kLlama, kGpt}) {
    const LoopbackRun whole = run_loopback(yaml, {}, {.steps = 4});
    for (const Trial& other : others) {
      for (const bool from_other : {true, false}) {
        if (yaml == kGpt && !other.sets.empty() && other.sets[0] == "parallel.zero=1") continue;
        CAPTURE(yaml, other.degrees, other.sets, from_other);
        const ResumedLayout mine = layout_of(yaml, unlike), its = layout_of(yaml, other);
        const ScratchFolder folder;
        const LoopbackRun resumed = run_resumed(yaml, from_other ? its : mine,
                                                from_other ? mine : its, folder.path(), 2, 0, 4);
        for (const std::size_t step : {2, 3}) {
          CHECK(resumed.losses[step] == Approx(whole.losses[step]).epsilon(1e-10));
          CHECK(resumed.gradient_norms[step] == Approx(whole.gradient_norms[step]).epsilon(1e-9));
        }
      }
    }
  }
}

}  // namespace trainyard::unlike_degrees_test
