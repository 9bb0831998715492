// Generated samples of imported models: a model that reads the class off its inputs has the loss
// that is said to be the best.
#include "real/data/imported_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "engine/base/error.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "tests/real/data/data_studies.h"
#include "tests/support/onnx_file.h"

namespace trainyard::imported_samples_test {

namespace {

Study study_with(const OnnxFile& file, const std::string& path,
                 ImportedLoss loss = ImportedLoss::kCrossEntropy) {
  Study study = study_of(Family::kGpt, path, 0, 1);
  study.model = {};
  study.model.family = Family::kOnnx;
  study.model.onnx = parse_onnx(file.bytes(), "m.onnx");
  study.model.loss = loss;
  return study;
}

/// x [N, 40] of real numbers and ids [N] of a table of 12 rows, to 5 logits.
OnnxFile two_inputs() {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{40}}).input("ids", {"N"}, onnx::TensorProto::INT64);
  file.weight("w", {5, 40}).weight("table", {12, 5});
  file.node("Gemm", {"x", "w"}, {"a"}).set("transB", 1);
  file.node("Gather", {"table", "ids"}, {"b"}).set("axis", 0);
  return file.node("Add", {"a", "b"}, {"y"}), file.output("y");
}

ImportedSamples samples_of(const Study& study) {
  return {study, build_model(study.model, {.microbatch = study.training.microbatch})};
}

std::vector<float> numbers_of(const Samples& samples, const char* name, std::int64_t index,
                              std::size_t count) {
  std::vector<float> out(count);
  samples.fill_numbers(name, index, out);
  return out;
}

std::string signs(const std::vector<float>& numbers) {
  std::string out;
  for (const float number : numbers) out += number > 0 ? '+' : '-';
  return out;
}

}  // namespace

TEST_CASE("every input of a generated sample shows its class") {
  const ImportedSamples samples = samples_of(study_with(two_inputs(), "generated"));
  CHECK(samples.predicted_per_sample() == 1);
  // -(0.9 ln 0.9 + 0.1 ln(0.1 / 4)) = 0.0948 + 0.3689.
  CHECK(samples.best_loss().value() == Approx(0.463713).epsilon(1e-5));
  CHECK(samples.loss_unit() == "nats a sample");
  std::map<std::string, std::int64_t> class_of;
  int right = 0;
  constexpr int kSamples = 3000;
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const std::int64_t id = input(samples, "ids", index, 1)[0];
    REQUIRE((id >= 0 && id < 12));
    const std::string shown = signs(numbers_of(samples, "x", index, 40));
    CHECK(class_of.emplace(shown, id % 5).first->second == id % 5);
    right += input(samples, "labels", index, 1)[0] == id % 5 ? 1 : 0;
  }
  CHECK(class_of.size() == 5);
  CHECK(right == Approx(0.9 * kSamples).margin(80));  // 5 deviations of 16.4
}

TEST_CASE("targets of elements are another pattern of the class") {
  const ImportedSamples squares =
      samples_of(study_with(two_inputs(), "generated", ImportedLoss::kMeanSquare));
  CHECK(squares.predicted_per_sample() == 5);
  double sum = 0;
  for (std::int64_t index = 0; index < 2000; ++index) {
    for (const float target : numbers_of(squares, "labels", index, 5))
      sum += std::pow(std::abs(target) - 1, 2) / 5;
  }
  CHECK(squares.loss_unit() == "of mean squares");
  CHECK(*squares.best_loss() == Approx(1.0 / 12));  // of what is off by at most a half
  CHECK(sum / 2000 == Approx(1.0 / 12).epsilon(0.05));

  const ImportedSamples truths =
      samples_of(study_with(two_inputs(), "generated", ImportedLoss::kBinaryCrossEntropy));
  CHECK(*truths.best_loss() == Approx(0.325083).epsilon(1e-5));  // -(0.9 ln 0.9 + 0.1 ln 0.1)
  CHECK(truths.loss_unit() == "nats a label");                   // five to a sample
  std::map<std::string, std::vector<double>> ones;               // by what x shows, of each target
  std::map<std::string, int> seen;
  for (std::int64_t index = 0; index < 4000; ++index) {
    const std::string shown = signs(numbers_of(truths, "x", index, 40));
    auto& sums = ones[shown];
    sums.resize(5);
    ++seen[shown];
    const std::vector<float> targets = numbers_of(truths, "labels", index, 5);
    for (std::size_t i = 0; i < 5; ++i) sums[i] += targets[i];
  }
  REQUIRE(ones.size() == 8);
  for (const auto& [shown, sums] : ones) {
    for (const double one : sums) {
      const double share = one / seen[shown];
      CHECK(std::min(share, 1 - share) == Approx(0.1).margin(0.07));  // 5 deviations of 0.0134
    }
  }
}

TEST_CASE("a model of tokens predicts the next one") {
  OnnxFile file;
  file.input("input_ids", {"N", std::int64_t{6}}, onnx::TensorProto::INT64);
  file.input("attention_mask", {"N", std::int64_t{6}});
  file.weight("table", {20, 4}).weight("head", {4, 20});
  file.node("Gather", {"table", "input_ids"}, {"h"}).set("axis", 0);
  file.integers("last", {2}).node("Unsqueeze", {"attention_mask", "last"}, {"m"});
  file.node("Mul", {"h", "m"}, {"hm"}).node("MatMul", {"hm", "head"}, {"y"}).output("y");
  const ImportedSamples samples = samples_of(study_with(file, "synthetic"));
  CHECK(samples.predicted_per_sample() == 6);
  const auto tokens = input(samples, "input_ids", 3, 6), labels = input(samples, "labels", 3, 6);
  CHECK(std::vector(tokens.begin() + 1, tokens.end()) ==
        std::vector(labels.begin(), labels.end() - 1));
  CHECK(numbers_of(samples, "attention_mask", 0, 6) == std::vector<float>(6, 1));
  CHECK(*samples.best_loss() == Approx(std::log(20)));
  CHECK(samples.loss_unit() == "nats a token");
}

TEST_CASE("integers that a model casts are ones, positions, or numbers that show a class") {
  OnnxFile file;
  const OnnxFile::Dims dims{"N", std::int64_t{8}};
  std::string sum;
  for (const std::string name : {"padding_mask", "position_ids", "counts"}) {
    file.input(name, dims, onnx::TensorProto::INT64);
    file.node("Cast", {name}, {name + "_as"}).set("to", 1);
    if (!sum.empty()) file.node("Add", {sum, name + "_as"}, {sum + name});
    sum = sum.empty() ? name + "_as" : sum + name;
  }
  file.weight("w", {3, 8}).node("Gemm", {sum, "w"}, {"y"}).set("transB", 1).output("y");
  const ImportedSamples samples = samples_of(study_with(file, "generated"));
  CHECK(input(samples, "padding_mask", 5, 8) == std::vector<std::int64_t>(8, 1));
  CHECK(numbers_of(samples, "position_ids", 5, 8) == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  std::set<std::string> shown;
  for (std::int64_t index = 0; index < 100; ++index)
    shown.insert(signs(numbers_of(samples, "counts", index, 8)));
  CHECK(shown.size() == 3);
}

TEST_CASE("of several losses each has labels of the class, and the best loss is their sum") {
  OnnxFile file = two_inputs();
  file.weight("v", {3, 40}).node("Gemm", {"x", "v"}, {"z"}).set("transB", 1).output("z");
  Study study = study_with(file, "generated");
  study.model.losses["y"] = {ImportedLoss::kCrossEntropy, 0.5, LossDivisor::kElements};
  study.model.losses["z"] = {ImportedLoss::kMeanSquare, 2, LossDivisor::kSamples};
  const ImportedSamples samples = samples_of(study);
  // 0.463713 of 5 classes, as above; 3 elements of a sample, each 1/12.
  CHECK(*samples.best_loss() == Approx(0.5 * 0.463713 + 2 * 3 / 12.0).epsilon(1e-5));
  CHECK(samples.loss_unit() == "as model.loss weighs it");
  int right = 0;
  for (std::int64_t index = 0; index < 1000; ++index) {
    const std::int64_t of_class = input(samples, "ids", index, 1)[0] % 5;
    right += input(samples, "labels.y", index, 1)[0] == of_class ? 1 : 0;
    for (const float target : numbers_of(samples, "labels.z", index, 3))
      CHECK(std::abs(std::abs(target) - 1) <= 0.5F);
  }
  CHECK(right == Approx(900).margin(48));  // 5 deviations of 9.5
}

TEST_CASE("what a model cannot be trained on is said") {
  Study tokens = study_with(two_inputs(), "text.bin");
  tokens.data.kind = "tokens";
  CHECK(config_error([&] {
          samples_of(tokens);
        }).find("only a model that predicts tokens is trained on a file") != std::string::npos);
  OnnxFile small;
  small.input("x", {"N", std::int64_t{2}}).weight("w", {9, 2});
  small.node("Gemm", {"x", "w"}, {"y"}).set("transB", 1).output("y");
  CHECK(config_error([&] {
          samples_of(study_with(small, "generated"));
        }).find("large enough to tell 9 generated classes apart") != std::string::npos);
  CHECK(*samples_of(study_with(small, "synthetic")).best_loss() == Approx(std::log(9)));
}

}  // namespace trainyard::imported_samples_test
