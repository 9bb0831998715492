// A run that goes on from a checkpoint, as one that has never stopped: masters, moments, the scale
// of the loss and the number of updates are the checkpoint's.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/resumed_run.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::resume_test {

namespace {

/// Bit for bit: what a CPU adds up on one thread has one order.
void check_resumed(const std::string& text, const Sets& sets) {
  constexpr int kDone = 4, kLost = 1, kSteps = 6;
  const LoopbackRun whole = run_loopback(text, sets, {.steps = kSteps});
  const ScratchFolder folder;
  const LoopbackRun resumed = run_resumed(text, sets, folder / "checkpoints", kDone, kLost, kSteps);
  for (std::size_t step = kDone - kLost; step < kSteps; ++step) {
    CAPTURE(step);
    CHECK(resumed.losses[step] == whole.losses[step]);
    CHECK(resumed.gradient_norms[step] == whole.gradient_norms[step]);
    CHECK(resumed.learning_rates[step] == whole.learning_rates[step]);
    CHECK(resumed.loss_scales[step] == whole.loss_scales[step]);
  }
  CHECK((resumed.weights == whole.weights));
  CHECK((resumed.masters == whole.masters));
}

const std::string kSchedule =
    "dropout: 0.1, steps: 6, lr: {peak: 0.01, schedule: cosine, warmup: 2}";

}  // namespace

TEST_CASE("a resumed run in 16-bit types goes on to the bit, with the masters that it had") {
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::string text = parity_study("gpt", "precision: " + precision + ", " + kSchedule);
    for (const Sets& sets :
         {Sets{}, Sets{"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"}}) {
      CAPTURE(precision, sets);
      check_resumed(text, sets);
    }
  }
}

TEST_CASE("a resumed run in FP8 goes on to the bit, with the history that its scales come from") {
  const std::string text =
      parity_study("gpt", "precision: {type: fp8, recipe: delayed}, " + kSchedule);
  for (const Sets& sets :
       {Sets{}, Sets{"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"}}) {
    CAPTURE(sets);
    check_resumed(text, sets);
  }
}

TEST_CASE("scales of a step are those of one rank, wherever the run goes on") {
  const std::string text =
      parity_study("gpt", "precision: {type: fp8, recipe: delayed}, dropout: 0, lr: {peak: 1e-3}");
  const LoopbackRun whole = run_loopback(text, {}, {.steps = 4});
  const ScratchFolder folder;
  const LoopbackRun resumed =
      run_resumed(text, {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"}, {},
                  folder / "checkpoints", 2, 0, 4);
  // A scale that begins anew is 1, and the first cast by it far off.
  for (std::size_t step = 2; step < 4; ++step)
    CHECK(resumed.losses[step] == Approx(whole.losses[step]).epsilon(2e-3));
}

TEST_CASE(
    "a run whose loss was scaled down goes on with that scale and with its number of updates") {
  // A sample of two tokens has one gradient of 65536 / 2 (p - 1) or so for each logit: a few of the
  // first scales overflow.
  std::string text = parity_study("gpt", "precision: fp16, " + kSchedule);
  const Sets sets = {"training.global_batch=1", "model.seq_len=2"};
  const LoopbackRun run = run_loopback(text, sets, {.steps = 3});
  CHECK(run.loss_scales[0] == 65536);
  REQUIRE(run.loss_scales[2] < 65536);
  check_resumed(text, sets);
}

TEST_CASE("a resumed run's losses.csv has each step once") {
  const ScratchFolder folder;
  const std::string header = "step,loss,tokens_per_s,grad_norm\n";
  CHECK(resumed_losses(folder / "losses.csv", 3, 2, 4) ==
        header + "1,1,1.0,0\n2,2,1.0,0\n3,3,1.0,0\n4,4,1.0,0\n");
  // The checkpoint was written behind the last line.
  CHECK(resumed_losses(folder / "losses.csv", 2, 2, 3) ==
        header + "1,1,1.0,0\n2,2,1.0,0\n3,3,1.0,0\n");
}

}  // namespace trainyard::resume_test
