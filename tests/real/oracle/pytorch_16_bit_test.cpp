// In bf16, fp16 and FP8 we train as PyTorch does with fp32 master weights: from the same weights,
// on the same samples (tests/oracle/train_16_bit.py wrote tests/golden/training/*.bf16.json and
// *.fp16.json, tests/oracle/train_fp8.py *.fp8-*.json).
//
// Rounding is of the size of what is compared here, and differs: where one of the two rounds an
// intermediate to 16 bits (eps = 2^-9 or 2^-12) the other may not. So what has to agree is
// - each loss and norm. Losses were seen to be 0.03 % apart, norms 0.5 %: 0.1 % and 1 % are asked.
// - where each tensor was trained to: ours is from PyTorch's at most 10 % of the way that PyTorch's
//   went. The golden files have of each way (the end of training minus its beginning) the norm and
//   16 projections onto vectors of signs s_k, and the mean of <s_k, x>^2 is |x|^2 on average. It
//   scatters: with 16 of them its root is below 0.6 |x| in 1 of 100 cases. So 6 % is asked; seen
//   are 3.1 % in bf16 and 4.9 % in fp16. Biases of keys go nowhere but where rounding takes them:
//   softmax does not see what all keys share.
// And weights that are computed with are the masters rounded, to the bit.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "real/checkpoint/convert.h"
#include "tests/real/loopback_run.h"
#include "tests/real/oracle/oracle_studies.h"
#include "tests/real/oracle/training_golden.h"

namespace trainyard::pytorch_16_bit_test {

namespace {

constexpr std::size_t kProjections = 16;
constexpr double kLoss = 1e-3, kNorm = 1e-2, kApart = 0.06;

/// Component `i` of vector `k`: by bit 0 of MurmurHash3's finaliser of its number.
double sign(std::size_t i, std::size_t k) {
  auto h = static_cast<std::uint32_t>(i * kProjections + k);
  h ^= h >> 16U;
  h *= 0x85ebca6bU;
  h ^= h >> 13U;
  h *= 0xc2b2ae35U;
  h ^= h >> 16U;
  return (h & 1U) != 0 ? -1.0 : 1.0;
}

/// How far ours ended from PyTorch's, of the way that PyTorch's went; estimated from its
/// projections.
double apart(const std::vector<double>& before, const std::vector<double>& after,
             const nlohmann::json& moved) {
  double squares = 0;
  for (std::size_t k = 0; k < kProjections; ++k) {
    double projection = 0;
    for (std::size_t i = 0; i < after.size(); ++i)
      projection += sign(i, k) * (after[i] - before[i]);
    squares += std::pow(projection - moved[1 + k].get<double>(), 2);
  }
  return std::sqrt(squares / kProjections) / moved[0].get<double>();
}

/// x as `precision` holds it.
double rounded(double x, DType precision) {
  const auto wide = static_cast<float>(x);
  std::array<std::byte, 2> bits{};
  float out = 0;
  convert(DType::kFp32, std::as_bytes(std::span(&wide, 1)).data(), precision, bits.data(), 1);
  convert(precision, bits.data(), DType::kFp32, std::as_writable_bytes(std::span(&out, 1)).data(),
          1);
  return out;
}

void check_weights(const LoopbackRun& before, const LoopbackRun& run, DType precision,
                   const nlohmann::json& moved) {
  REQUIRE(run.masters.size() == moved.size());
  for (const auto& [name, way] : moved.items()) {
    CAPTURE(name);
    const std::vector<double>& masters = run.masters.at(name);
    if (!name.ends_with(".k.bias")) CHECK(apart(before.masters.at(name), masters, way) <= kApart);
    // What is computed with is the masters, rounded.
    const std::vector<double>& weights = run.weights.at(name);
    REQUIRE(weights.size() == masters.size());
    std::size_t stale = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      stale += weights[i] != rounded(masters[i], precision) ? 1 : 0;
    CHECK(stale == 0);
  }
}

void check_run(const LoopbackRun& before, const LoopbackRun& run, DType precision,
               const nlohmann::json& theirs) {
  for (std::size_t step = 0; step < static_cast<std::size_t>(kOracleSteps); ++step) {
    CAPTURE(step);
    CHECK(run.losses[step] == Approx(theirs["losses"][step].get<double>()).epsilon(kLoss));
    CHECK(run.loss_scales[step] == theirs["loss_scales"][step]);
    const nlohmann::json& norm = theirs["gradient_norms"][step];
    CHECK(std::isfinite(run.gradient_norms[step]) == !norm.is_null());  // null: overflowed
    if (!norm.is_null())
      CHECK(run.gradient_norms[step] == Approx(norm.get<double>()).epsilon(kNorm));
  }
  check_weights(before, run, precision, theirs["moved"]);
}

/// Casts to 8 bits alone: what bf16 holds is fp32 on both sides, and the two cast alike but where a
/// number lies within fp32's rounding of the middle between two of 8 bits. In the first step losses
/// were seen to be 1e-7 apart and norms 2e-5; without casts they are 1e-3 and 1e-2 off. What was
/// cast otherwise then moves a scale and with it all numbers of a tensor: norms of the second step
/// are up to 3e-3 apart, and weights 7 % of their way.
void train_in_fp8(const std::string& recipe, const std::vector<std::string>& layout) {
  constexpr int kFp8Steps = 2;
  constexpr double kFp8Apart = 0.1;
  const auto study =
      std::find_if(oracle_studies().begin(), oracle_studies().end(),
                   [](const OracleStudy& it) { return it.name == "gpt-exact-gelu"; });
  REQUIRE(study != oracle_studies().end());
  const nlohmann::json golden = read_training_golden(study->name + ".fp8-" + recipe);
  std::vector<std::string> sets = layout;
  sets.push_back("training.precision={type: fp8, recipe: " + recipe + "}");
  LoopbackOptions options{.steps = 0, .noise = kOracleNoise};
  options.plant = [](Program& program) {
    for (Value& value : program.values)
      value.dtype = value.dtype == DType::kBf16 ? DType::kFp32 : value.dtype;
  };
  const LoopbackRun before = run_loopback(study->yaml, sets, options);
  options.steps = kFp8Steps;
  for (const OracleTraining& training : oracle_trainings(*study)) {
    CAPTURE(recipe, training.name, layout);
    std::vector<std::string> all = sets;
    all.insert(all.end(), training.sets.begin(), training.sets.end());
    const LoopbackRun run = run_loopback(study->yaml, all, options);
    const nlohmann::json& theirs = golden[training.name];
    for (std::size_t step = 0; step < static_cast<std::size_t>(kFp8Steps); ++step) {
      CAPTURE(step);
      const double loss = step == 0 ? 1e-6 : 2e-4, norm = step == 0 ? 1e-4 : 5e-3;
      CHECK(run.losses[step] == Approx(theirs["losses"][step].get<double>()).epsilon(loss));
      CHECK(run.gradient_norms[step] ==
            Approx(theirs["gradient_norms"][step].get<double>()).epsilon(norm));
    }
    REQUIRE(run.masters.size() == theirs["moved"].size());
    for (const auto& [name, way] : theirs["moved"].items()) {
      CAPTURE(name);
      // AdamW goes as far where a gradient is nearly 0, whatever its sign.
      if (training.name == "sgd" && !name.ends_with(".k.bias"))
        CHECK(apart(before.masters.at(name), run.masters.at(name), way) <= kFp8Apart);
    }
  }
}

const std::vector<std::string> kShardedMasters = {"cluster.ranks=4", "parallel.tensor=2",
                                                  "parallel.data=2", "parallel.zero=1"};

/// The studies that are trained in it, under each of their trainings.
void train_and_compare(const std::string& precision, const std::vector<std::string>& layout) {
  for (const OracleStudy& study : oracle_studies()) {
    const std::vector<std::string> trained = short_precisions(study);
    if (std::find(trained.begin(), trained.end(), precision) == trained.end()) continue;
    const nlohmann::json golden = read_training_golden(study.name + "." + precision);
    std::vector<std::string> sets = layout;
    sets.push_back("training.precision=" + precision);
    const LoopbackRun before = run_loopback(study.yaml, sets, {.steps = 0, .noise = kOracleNoise});
    for (const OracleTraining& training : oracle_trainings(study)) {
      CAPTURE(study.name, precision, training.name, layout);
      std::vector<std::string> all = sets;
      all.insert(all.end(), training.sets.begin(), training.sets.end());
      check_run(before,
                run_loopback(study.yaml, all, {.steps = kOracleSteps, .noise = kOracleNoise}),
                precision == "bf16" ? DType::kBf16 : DType::kFp16, golden[training.name]);
    }
  }
}

}  // namespace

TEST_CASE("one device trains in bf16 as PyTorch does with fp32 masters") {
  train_and_compare("bf16", {});
}
TEST_CASE("one device trains in fp16 as PyTorch does with fp32 masters") {
  train_and_compare("fp16", {});
}
TEST_CASE("tensor parallel ranks with shards of masters train in bf16 as PyTorch does") {
  train_and_compare("bf16", kShardedMasters);
}
TEST_CASE("tensor parallel ranks with shards of masters train in fp16 as PyTorch does") {
  train_and_compare("fp16", kShardedMasters);
}

TEST_CASE("one device trains in FP8 as PyTorch does by casts, under every recipe") {
  for (const char* recipe : {"tensorwise", "delayed", "rowwise", "blockwise-128", "mx"})
    train_in_fp8(recipe, {});
}
TEST_CASE("a pipeline trains in FP8 as PyTorch does on one device") {
  for (const char* recipe : {"tensorwise", "delayed"})
    train_in_fp8(recipe, {"cluster.ranks=2", "parallel.pipeline=2"});
}
TEST_CASE("a step whose gradients overflowed is no update: AdamW's first comes after it") {
  // The first update goes lr g / (|g| + eps), the rate for every element that has a gradient:
  // corrections for bias make up for moments that begin with 0. If the step before it had counted,
  // it would be (0.1 / 0.19) sqrt(0.0975 / 0.05) = 0.735 of that.
  const OracleStudy* study = nullptr;
  for (const OracleStudy& one : oracle_studies()) {
    if (one.name == "t5-gated") study = &one;
  }
  REQUIRE(study != nullptr);
  constexpr double kRate = 1e-3;
  const std::vector<std::string> sets = {"training.precision=fp16", "training.optimizer=adamw",
                                         "training.lr.peak=0.001", "training.weight_decay=0"};
  const LoopbackRun first = run_loopback(study->yaml, sets, {.steps = 1, .noise = kOracleNoise});
  const LoopbackRun second = run_loopback(study->yaml, sets, {.steps = 2, .noise = kOracleNoise});
  REQUIRE_FALSE(std::isfinite(second.gradient_norms[0]));
  REQUIRE(std::isfinite(second.gradient_norms[1]));
  const std::string name = "decoder.layers.0.mlp.down.weight";
  const std::vector<double>&before = first.masters.at(name), &after = second.masters.at(name);
  std::size_t of_rate = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    of_rate += std::abs(std::abs(after[i] - before[i]) / kRate - 1) < 1e-2 ? 1 : 0;
  CHECK(static_cast<double>(of_rate) > 0.95 * static_cast<double>(before.size()));
}

}  // namespace trainyard::pytorch_16_bit_test
