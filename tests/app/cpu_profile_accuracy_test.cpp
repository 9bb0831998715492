// The shipped profiles of CPU classes against steps that were trained on such CPUs.
#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "app/simulation.h"
#include "tests/support/studies.h"

namespace trainyard::cpu_profile_accuracy_test {

namespace {

struct MeasuredStep {
  const char* model;  // family, layers, hidden, heads, vocab, seq_len
  int ranks;
  const char* parallel;  // of them
  int global_batch, microbatch;
  const char* training;  // and the rest of the study
  double ms;
};

/// bench/README.md: 2026-11-22, 2 cores of an Intel Xeon with AMX; studies of
/// bench/calibration_accuracy.py.
const MeasuredStep kAmxSteps[] = {
    {"gpt, layers: 4, hidden: 576, heads: 9, vocab: 6000, seq_len: 160", 1, "", 4, 2, "dropout: 0}",
     202.44},
    {"gpt, layers: 2, hidden: 1024, heads: 16, vocab: 8000, seq_len: 320", 1, "", 2, 1,
     "dropout: 0}\nrecompute: full", 318.54},
    {"llama, layers: 4, hidden: 448, heads: 7, vocab: 5000, seq_len: 192", 1, "", 4, 4,
     "dropout: 0}", 147.10},
    {"llama, layers: 2, hidden: 960, heads: 15, vocab: 10000, seq_len: 224", 1, "", 2, 2,
     "dropout: 0}\nrecompute: full", 220.56},
    {"bert, layers: 3, hidden: 416, heads: 13, vocab: 3000, seq_len: 176", 1, "", 4, 2,
     "dropout: 0.1}", 164.30},
    {"llama, layers: 3, hidden: 352, heads: 11, vocab: 3000, seq_len: 192", 2, "data: 2", 4, 2,
     "dropout: 0}", 124.40},
    {"llama, layers: 3, hidden: 576, heads: 6, vocab: 3000, seq_len: 240", 2, "tensor: 2", 4, 2,
     "dropout: 0}", 257.50},
    {"llama, layers: 4, hidden: 416, heads: 13, vocab: 3000, seq_len: 208", 2, "pipeline: 2", 8, 2,
     "dropout: 0}", 378.66}};

double predicted_ms(const MeasuredStep& step, const std::string& profile) {
  const Prepared prepared = prepare_text(
      "model: {family: " + std::string(step.model) + "}\ncluster: {preset: local, ranks: " +
      std::to_string(step.ranks) + ", device: " + profile + "}\nparallel: {" + step.parallel +
      "}\ntraining: {precision: bf16, global_batch: " + std::to_string(step.global_batch) +
      ", microbatch: " + std::to_string(step.microbatch) + ", " + step.training +
      "\nfidelity: analytic\n");
  const auto answer = simulate(prepared, RunOptions{});
  REQUIRE(std::holds_alternative<Simulation>(answer));
  return 1e3 * std::get<Simulation>(answer).summary.iteration_time;
}

}  // namespace

TEST_CASE("bf16 on a CPU with AMX is predicted within a factor of three") {
  for (const MeasuredStep& step : kAmxSteps) {
    const double ratio = predicted_ms(step, "cpu-amx") / step.ms;
    CAPTURE(step.model, step.ranks, ratio);
    CHECK(ratio < 3);
    CHECK(ratio > 1.0 / 3);
    // The class that knows nothing of such CPUs was this far off.
    CHECK(predicted_ms(step, "cpu") / step.ms > 15);
  }
}

}  // namespace trainyard::cpu_profile_accuracy_test
