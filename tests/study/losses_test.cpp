// The losses and buffers of an imported model: read, written as study.resolved.yaml and read again,
// refused at their place.
#include <catch2/catch.hpp>
#include <string>

#include "models/onnx/onnx_model.h"
#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::losses_test {

namespace {

/// A file of two outputs, whatever its path.
StudyResolvers with_outputs() {
  StudyResolvers resolvers = fixture_resolvers();
  resolvers.onnx_file = [](const std::string& path, const auto&) {
    OnnxModel file;
    file.file = path;
    file.values = {"topic", "rating"};
    file.outputs = {0, 1};
    ModelConfig config;
    config.family = Family::kOnnx;
    config.onnx_file = path;
    config.onnx = std::make_shared<OnnxModel>(file);
    config.seq_len = 1;
    return config;
  };
  resolvers.onnx_buffers = with_buffers;
  return resolvers;
}

Study with_loss(const std::string& loss) {
  return read_study_text(
      "model: {onnx: m.onnx, loss: " + loss + "}\ncluster: box\ntraining: {global_batch: 8}\n",
      "study.yaml", {}, with_outputs());
}

std::string error_with(const std::string& loss) {
  try {
    with_loss(loss);
    return "no error";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("an imported model has one loss, or one for each output that is named") {
  const Study one = with_loss("mean_square");
  CHECK(one.model.loss == ImportedLoss::kMeanSquare);
  CHECK(one.model.losses.empty());

  const std::string said =
      "{topic: {kind: cross_entropy}, rating: {kind: mean_square, weight: 0.5, divisor: samples}}";
  const Study two = with_loss(said);
  REQUIRE(two.model.losses.size() == 2);
  CHECK(two.model.losses.at("topic") == OutputLoss{});
  CHECK(two.model.losses.at("rating") ==
        OutputLoss{ImportedLoss::kMeanSquare, 0.5, LossDivisor::kSamples});
  const Study again =
      read_study_text(resolved_study_text(two), "study.resolved.yaml", {}, with_outputs());
  CHECK(again.model.losses == two.model.losses);
}

TEST_CASE("a loss that cannot be is refused at its place") {
  CHECK(error_with("{price: {kind: mean_square}}") ==
        "study.yaml:1:37: model.loss.price: expected an output of the file: topic and rating");
  CHECK(error_with("{topic: {weight: 2}}") ==
        "study.yaml:1:37: model.loss.topic: missing required key 'kind'");
  CHECK(error_with("{topic: {kind: mean_square, weight: 0}}") ==
        "study.yaml:1:65: model.loss.topic.weight: expected more than 0, got 0");
  CHECK(error_with("{topic: {kind: mean_square, divisor: labels}}") ==
        "study.yaml:1:66: model.loss.topic.divisor: unknown divisor 'labels'; this version has "
        "elements and samples");
  CHECK(error_with("{topic: {kind: mean_square}, topic: {kind: cross_entropy}}") ==
        "study.yaml:1:58: model.loss.topic: appears twice in this map");
}

TEST_CASE("buffers of an imported model are names, of other models nothing") {
  const auto read = [](const std::string& text) {
    return read_study_text(text, "study.yaml", {}, with_outputs());
  };
  const std::string plan = "\ncluster: box\ntraining: {global_batch: 8}\n";
  const Study study = read("model: {onnx: m.onnx, buffers: [mask, '*.window']}" + plan);
  const std::vector<std::string> expected{"mask", "*.window"};
  CHECK(study.model.onnx->buffers == expected);
  CHECK(read(resolved_study_text(study)).model.onnx->buffers == expected);
  CHECK(read("model: {onnx: m.onnx}" + plan).model.onnx->buffers.empty());
  const auto error = [&](const std::string& text) -> std::string {
    try {
      read(text);
      return "no error";
    } catch (const ConfigError& problem) {
      return problem.what();
    }
  };
  CHECK(error("model: {onnx: m.onnx, buffers: []}" + plan) ==
        "study.yaml:1:32: model.buffers: expected names of tensors, got nothing");
  CHECK(error("model: {preset: gpt-tiny, buffers: [a]}" + plan)
            .find("model.buffers: means nothing to family") != std::string::npos);
}

TEST_CASE("a model without the file's name is refused at it") {
  try {
    read_study_text("model: {onnx: ''}\ncluster: box\ntraining: {global_batch: 8}\n", "study.yaml",
                    {}, with_outputs());
    FAIL("it was read");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()) ==
          "study.yaml:1:15: model.onnx: expected the file of a model, got nothing");
  }
}

}  // namespace trainyard::losses_test
