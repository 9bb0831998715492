// A GPU that `calibrate` timed for a minute: what its profile says of a step that was measured
// there.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/simulated.h"
#include "tests/support/source_root.h"

namespace trainyard::calibrated_gpu_test {

TEST_CASE("a GPU that was calibrated for a minute predicts a step that it has run") {
  // `train` of this study on the same H100, minutes before (2026-11-26): ten recorded steps took
  // 119.8 to 120.3 ms each. None of the 31 probes was of this model.
  const std::string study =
      "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, vocab: 50304, seq_len: 1024}\n"
      "cluster: {preset: local, profile: " +
      source_root() +
      "/tests/golden/h100_calibrated.yaml, ranks: 1}\n"
      "training: {global_batch: 16, microbatch: 8, precision: bf16, dropout: 0}\n";
  constexpr double kMeasured = 0.1200;
  CHECK(simulate_text(study, true).result.trace.period == Approx(kMeasured).epsilon(0.02));
}

}  // namespace trainyard::calibrated_gpu_test
