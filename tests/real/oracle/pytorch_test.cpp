// We train as PyTorch does: from the same weights, on the same samples, with the models of the
// transformers library, or those of tests/oracle/plain_models.py (tests/oracle/train.py wrote
// tests/golden/training/).
//
// Theirs is in double precision, so that what is seen is our rounding. All is trained twice:
//
// fp64: what remains is that an op's constants (the scale of scores and of T5's head, the epsilon
// of a norm) are fp32 numbers in the Program, off by 6e-8 at most. Scores and logits are off by as
// much, and what follows in proportion: 1e-7 of losses, gradient norms and each weight's gradient
// (seen: 4e-9 of a loss, 2e-8 of a norm), 1e-8 of the global norm where a gradient is a small
// difference of larger terms.
//
// fp32 (eps = 6e-8): a sum of n terms that are rounded one by one is off by sqrt(n) eps or so of
// its terms' size; here n <= 512, a model has some 50 ops in a row, and errors of independent ops
// add up as squares: some 1e-7 to 1e-6 of what comes out. The tolerances are ten times that.
// - Loss and gradient norm, 1e-5. SGD hands an error of the gradient on to the weights linearly; a
//   wrong gradient is off by far more in 20 steps.
// - A weight's gradient is a difference of larger terms (a key bias's even 0, since softmax does
//   not see what all keys share), so rounding is measured against the whole model's: 1e-5 of its
//   own norm + 1e-6 of the global norm. The projection is on a vector of elements in [-1, 1): an
//   error e of random direction changes it by |e| / sqrt(3).
// - With ReLU, an input within rounding of 0 passes here and not there, which changes that step's
//   gradient by one term of it; seen: 1e-3 of the norm, 2e-5 of the loss, also between PyTorch's
//   float32 and its double. Of a million such inputs in a run (20 steps x 8 samples x 48 tokens x
//   64 features x 2 layers) the chance that one is within 1e-7 of 0 is some 10 %, with AdamW more.
//   So 1e-2 and 1e-4 there (the first gradient stays as above); fp64 holds it to 1e-7.
//
// AdamW divides by the root of the second moment, so it passes errors on that a small gradient has
// relative to itself, and hides those that are the same factor for all: that is why SGD is here
// too.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/real/loopback_run.h"
#include "tests/real/oracle/oracle_studies.h"
#include "tests/real/oracle/training_golden.h"

namespace trainyard::pytorch_test {

namespace {

/// All relative.
struct Tolerance {
  double loss, norm;
  double own, global;  // of a gradient: to its own norm, and to the whole model's
};
constexpr Tolerance kFp64{.loss = 1e-7, .norm = 1e-7, .own = 1e-7, .global = 1e-8};
constexpr Tolerance kFp32{.loss = 1e-5, .norm = 1e-5, .own = 1e-5, .global = 1e-6};
constexpr Tolerance kFp32Relu{.loss = 1e-4, .norm = 1e-2, .own = 1e-5, .global = 1e-6};

/// Steps of layouts, which are one device's but for what they exchange: the four in which the
/// learning rate rises, and two at its height with moments, masters and weights of earlier ones.
constexpr int kLayoutSteps = 6;

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

/// On the vector whose component i is (i * 2654435761 mod 2^32) / 2^31 - 1: exact in double
/// precision, and equally spread over [-1, 1) (2^32 over the golden ratio).
double projection_of(const std::vector<double>& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t word = (std::uint64_t{i} * 2654435761U) & 0xffffffffU;
    sum += values[i] * (static_cast<double>(word) / 2147483648.0 - 1.0);
  }
  return sum;
}

/// Largest relative difference, and where.
struct Worst {
  double difference = 0;
  std::size_t step = 0;
};

Worst worst_of(const std::vector<double>& ours, const nlohmann::json& theirs) {
  REQUIRE(ours.size() <= theirs.size());
  Worst worst;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto expected = theirs[i].get<double>();
    const double difference = std::abs(ours[i] - expected) / expected;
    if (!(difference <= worst.difference)) worst = {difference, i + 1};
  }
  return worst;
}

void compare_gradients(const std::map<std::string, std::vector<double>>& ours,
                       const nlohmann::json& theirs, const Tolerance& tolerance) {
  REQUIRE(ours.size() == theirs.size());
  double global = 0;
  for (const auto& [name, gradient] : theirs.items()) global = std::hypot(global, gradient[0]);
  std::string worst_name;
  double worst = 0;  // difference over what is allowed
  for (const auto& [name, gradient] : theirs.items()) {
    const auto found = ours.find(name);
    INFO(name);
    REQUIRE(found != ours.end());
    const auto norm = gradient[0].get<double>(), projection = gradient[1].get<double>();
    const double difference = std::max(std::abs(norm_of(found->second) - norm),
                                       std::abs(projection_of(found->second) - projection));
    const double excess = difference / (tolerance.own * norm + tolerance.global * global);
    if (!(excess <= worst)) worst = excess, worst_name = name;
  }
  INFO("worst gradient, in units of its tolerance: " << worst_name);
  CHECK(worst <= 1.0);
}

void compare(const LoopbackRun& run, const nlohmann::json& golden, const std::string& training,
             const Tolerance& tolerance) {
  compare_gradients(run.gradients, golden["gradients"], tolerance);
  const nlohmann::json& theirs = golden[training];
  const Worst loss = worst_of(run.losses, theirs["losses"]);
  INFO("worst loss: step " << loss.step);
  CHECK(loss.difference <= tolerance.loss);
  const Worst norm = worst_of(run.gradient_norms, theirs["gradient_norms"]);
  INFO("worst gradient norm: step " << norm.step);
  CHECK(norm.difference <= tolerance.norm);
}

void train_and_compare(const OracleStudy& study, const std::vector<std::string>& layout,
                       int steps) {
  const nlohmann::json golden = read_training_golden(study.name);
  const bool relu = prepare_text(study.yaml, {}).study.model.activation == Activation::kRelu;
  for (const OracleTraining& training : oracle_trainings(study)) {
    std::vector<std::string> sets = training.sets;
    sets.insert(sets.end(), layout.begin(), layout.end());
    for (const char* precision : {"fp64", "fp32"}) {
      INFO(study.name << ", " << training.name << ", " << precision);
      sets.push_back(std::string("training.precision=") + precision);
      const Tolerance fp32 = relu ? kFp32Relu : kFp32;
      compare(run_loopback(study.yaml, sets, {.steps = steps, .noise = kOracleNoise}), golden,
              training.name, precision == std::string("fp64") ? kFp64 : fp32);
    }
  }
}

}  // namespace

TEST_CASE("one device trains as PyTorch does") {
  for (const OracleStudy& study : oracle_studies()) train_and_compare(study, {}, kOracleSteps);
}

TEST_CASE("decoders train as PyTorch does with their sequences split and layers computed again") {
  const std::set<std::string> kDecoders = {"gemma2", "qwen3", "phi3", "falcon-one-norm", "mpt"};
  for (const OracleStudy& study : oracle_studies()) {
    if (!kDecoders.contains(study.name)) continue;
    train_and_compare(study,
                      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true",
                       "recompute.method=full", "recompute.unit=sublayer"},
                      kLayoutSteps);
  }
}

TEST_CASE("tensor and pipeline parallel ranks train as PyTorch does") {
  for (const OracleStudy& study : oracle_studies()) {
    if (study.name == "llama-tied") continue;  // of 3 layers
    // Heads of one group are not split.
    const bool whole = study.name.starts_with("mamba2") && study.name != "mamba2-groups";
    const bool splits = study.name != "ncf" && !whole;
    train_and_compare(study,
                      {splits ? "cluster.ranks=4" : "cluster.ranks=2",
                       splits ? "parallel.tensor=2" : "parallel.data=1", "parallel.pipeline=2"},
                      kLayoutSteps);
  }
}

}  // namespace trainyard::pytorch_test
