// The learning rate of every step, and the scale of an fp16 loss.
#include "real/train/step_schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"
#include "tests/support/source_root.h"

namespace trainyard::step_schedule_test {

namespace {

/// tests/oracle/learning_rates.py wrote it.
nlohmann::json golden_schedules() {
  const std::string path = source_root() + "/tests/golden/learning_rates.json";
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file);
  return nlohmann::json::parse(file)["schedules"];
}

LearningRate rate_of(const nlohmann::json& golden) {
  return {golden["peak"], golden["schedule"], golden["warmup"]};
}

LossScale scale_of(const std::string& precision, const std::string& scale) {
  const std::string text =
      parity_study("gpt", "precision: " + precision + ", loss_scale: " + scale);
  return LossScale(prepare_text(text, {}).study.training);
}

}  // namespace

TEST_CASE("the learning rate of every step is that of PyTorch's schedulers") {
  for (const nlohmann::json& golden : golden_schedules()) {
    const LearningRate rate = rate_of(golden);
    CAPTURE(golden.dump());
    const std::int64_t steps = golden["steps"];
    REQUIRE(golden["rates"].size() == static_cast<std::size_t>(steps));
    for (std::int64_t step = 0; step < steps; ++step) {
      CAPTURE(step);
      const double expected = golden["rates"][static_cast<std::size_t>(step)];
      CHECK(std::abs(learning_rate(rate, step, steps) - expected) <= 1e-12 * rate.peak);
    }
  }
}

TEST_CASE("every step of a run is trained with the learning rate that is its own") {
  for (const nlohmann::json& golden : golden_schedules()) {
    const std::int64_t steps = golden["steps"];
    if (steps > 20) continue;
    CAPTURE(golden.dump());
    const std::string lr = "lr: {peak: " + golden["peak"].dump() +
                           ", schedule: " + std::string(golden["schedule"]) +
                           ", warmup: " + golden["warmup"].dump() + "}";
    // SGD without clipping: a step goes as far as its rate and its gradient's norm say.
    const std::string text =
        parity_study("gpt",
                     "precision: fp64, dropout: 0, optimizer: sgd, clip_norm: 0, weight_decay: 0, "
                     "steps: " +
                         std::to_string(steps) + ", " + lr);
    const int ran = static_cast<int>(std::min<std::int64_t>(steps, 6));
    LoopbackRun before = run_loopback(text, {}, {.steps = 0});
    for (int step = 0; step < ran; ++step) {
      CAPTURE(step);
      LoopbackRun after = run_loopback(text, {}, {.steps = step + 1});
      const double expected = golden["rates"][static_cast<std::size_t>(step)];
      CHECK(std::abs(after.learning_rates.back() - expected) <= 1e-12 * rate_of(golden).peak);
      double way = 0;
      for (const auto& [name, weights] : after.weights) {
        for (std::size_t i = 0; i < weights.size(); ++i)
          way += std::pow(weights[i] - before.weights.at(name)[i], 2);
      }
      CHECK(std::sqrt(way) == Approx(expected * after.gradient_norms.back()).epsilon(1e-9));
      before = std::move(after);
    }
  }
}

TEST_CASE(
    "the scale of an fp16 loss is halved by an overflow and doubled after 2,000 steps without") {
  LossScale scale = scale_of("fp16", "dynamic");
  CHECK(scale.value() == 65536);
  const auto good_steps = [&](int number) {
    for (int i = 0; i < number; ++i) scale.step_done(true);
  };
  scale.step_done(false);
  scale.step_done(false);
  CHECK(scale.value() == 16384);
  good_steps(1999);
  CHECK(scale.value() == 16384);
  good_steps(1);
  CHECK(scale.value() == 32768);
  // An overflow begins the count anew.
  good_steps(1500);
  scale.step_done(false);
  CHECK(scale.value() == 16384);
  good_steps(1999);
  CHECK(scale.value() == 16384);
  good_steps(1);
  CHECK(scale.value() == 32768);
  // It goes on where it was.
  LossScale resumed = scale_of("fp16", "dynamic");
  resumed.resume(512, 1999);
  resumed.step_done(true);
  CHECK(resumed.value() == 1024);
  for (int i = 0; i < 40; ++i) resumed.step_done(false);
  CHECK(resumed.value() == 1);
}

TEST_CASE("a scale that the study fixes, and that of another precision, never changes") {
  for (auto [scale, value] :
       {std::pair{scale_of("fp16", "4096"), 4096.0}, std::pair{scale_of("bf16", "dynamic"), 1.0},
        std::pair{scale_of("fp32", "dynamic"), 1.0}}) {
    CHECK(scale.value() == value);
    for (int i = 0; i < 2001; ++i) scale.step_done(i > 0);
    CHECK(scale.value() == value);
  }
}

}  // namespace trainyard::step_schedule_test
