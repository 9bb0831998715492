// CLIP holds the parameters and does the multiplications of the published models, in whatever
// groups samples are told apart.
#include <catch2/catch.hpp>
#include <string>

#include "engine/base/error.h"
#include "models/model.h"
#include "models/presets.h"
#include "tests/models/problem_text.h"

namespace trainyard::clip_test {

namespace {

ModelConfig small() {
  ModelConfig config;
  config.family = Family::kClip;
  config.layers = 2, config.hidden = 8, config.heads = 2, config.vocab = 20, config.seq_len = 5;
  config.image_layers = 3, config.image_hidden = 12, config.image_heads = 3;
  config.image_size = 8, config.patch_size = 4, config.channels = 3;
  config.projection_dim = 6, config.contrast = 4;
  return config;
}

std::string problem_after(void (*change)(ModelConfig&)) {
  ModelConfig config = small();
  change(config);
  return problem_text(config);
}

}  // namespace

TEST_CASE("CLIP has the published models' parameters") {
  // CLIPModel of transformers 4.57.1 on the meta device.
  const auto [preset, parameters] = GENERATE(table<const char*, std::int64_t>({
      {"clip-vit-b-32", 151'277'313},
      {"clip-vit-b-16", 149'620'737},
      {"clip-vit-l-14", 427'616'513},
  }));
  CAPTURE(preset);
  const ModelConfig config = find_model_preset(preset)->config;
  const Graph graph = build_model(config, {.microbatch = config.contrast});
  CHECK(find_violation(graph) == "");
  CHECK(count_parameters(graph).with_head == parameters);
  CHECK(graph.num_layers == config.layers + config.image_layers);
}

TEST_CASE("CLIP takes the products that its sizes say") {
  // Multiply-adds of a sample; a layer of S tokens and width D has 12 S D^2 + 2 S^2 D.
  const auto layer = [](double tokens, double width) {
    return 12 * tokens * width * width + 2 * tokens * tokens * width;
  };
  const double text = 2 * layer(5, 8) + 8 * 6;
  const double image = 4 * (3 * 4 * 4) * 12.0 + 3 * layer(5, 12) + 12 * 6;  // 4 patches, a class
  const double contrast = 4 * 6;  // a sample and each of its group
  const Graph graph = build_model(small(), {.microbatch = 8});
  CHECK(graph.model_flop_per_microbatch == 2 * 8 * (text + image + contrast));
}

TEST_CASE("the text tower's layers come before the image tower's") {
  const Graph graph = build_model(small(), {.microbatch = 4});
  for (const Op& op : graph.ops) {
    const std::string& module = graph.modules[op.module];
    CAPTURE(module);
    if (module.starts_with("text.layers") || module.starts_with("text.final_norm"))
      CHECK((op.layer >= 0 && op.layer < 2));
    if (module.starts_with("image.layers") || module.starts_with("image.embedding"))
      CHECK((op.layer >= 2 && op.layer < 5));
    if (module.starts_with("contrast") || module.starts_with("image.final_norm"))
      CHECK(op.layer == -1);
  }
}

TEST_CASE("towers and groups that CLIP cannot have are refused") {
  CHECK(problem_after([](ModelConfig&) {}) == "none");
  CHECK(problem_after([](ModelConfig& c) { c.contrast = 1; }) ==
        "contrast: expected at least 2, got 1");
  CHECK(problem_after([](ModelConfig& c) { c.image_heads = 5; }) ==
        "image_heads: 5 does not divide image_hidden, 12");
  CHECK(problem_after([](ModelConfig& c) { c.heads = 3; }) == "heads: 3 does not divide hidden, 8");
  CHECK(problem_after([](ModelConfig& c) { c.patch_size = 3; }) ==
        "patch_size: 3 does not divide image_size, 8");
  CHECK(problem_after([](ModelConfig& c) { c.image_layers = 0; }) ==
        "image_layers: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.projection_dim = 1; }) ==
        "projection_dim: expected at least 2, got 1");
  CHECK_THROWS_WITH(build_model(small(), {.microbatch = 6}),
                    Catch::Contains("training.microbatch: 6 samples cannot be put in groups of 4 "
                                    "(model.contrast); a multiple of 4 can"));
}

}  // namespace trainyard::clip_test
