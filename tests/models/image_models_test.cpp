// Families of images hold the parameters and do the multiplications of torchvision's models.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/problem_text.h"

namespace trainyard::image_models_test {

namespace {

struct Published {
  const char* preset;
  std::int64_t parameters;
  double gmacs;  // multiply-adds of one image
};

std::string problem_after(const std::string& preset, void (*change)(ModelConfig&)) {
  ModelConfig config = find_model_preset(preset)->config;
  change(config);
  return problem_text(config);
}

}  // namespace

TEST_CASE("models of images have torchvision's parameters and multiply-adds") {
  // Columns Params and GFLOPS of torchvision's table of classification weights (of images of
  // 224 x 224; it counts a multiply-add once). ResNet-152x8 by the same rule as ResNet-152: all
  // channels but the image's 8 times, so every convolution but the first 64 times.
  const auto [preset, parameters, gmacs] = GENERATE(table<const char*, std::int64_t, double>({
      {"resnet18", 11'689'512, 1.81},
      {"resnet34", 21'797'672, 3.66},
      {"resnet50", 25'557'032, 4.09},
      {"resnet101", 44'549'160, 7.80},
      {"resnet152", 60'192'808, 11.51},
      {"vgg11", 132'863'336, 7.61},
      {"vgg16", 138'357'544, 15.47},
      {"vgg19", 143'667'240, 19.63},
      {"densenet121", 7'978'856, 2.83},
      {"densenet169", 14'149'480, 3.36},
      {"densenet201", 20'013'928, 4.29},
      {"vit-b-16", 86'567'656, 17.56},
      {"vit-b-32", 88'224'232, 4.41},
      {"vit-l-16", 304'326'632, 61.55},
      {"vit-h-14", 632'045'800, 167.29},
      {"swin-t", 28'288'354, 4.49},
      {"swin-s", 49'606'258, 8.74},
      {"swin-b", 87'768'224, 15.43},
  }));
  CAPTURE(preset);
  const Graph graph = build_model(find_model_preset(preset)->config, {.microbatch = 2});
  CHECK(count_parameters(graph).with_head == parameters);
  CHECK(graph.model_flop_per_microbatch / 2 / 2e9 == Approx(gmacs).margin(0.006));
}

TEST_CASE("a width factor multiplies the channels of every layer") {
  const auto parameters = [](const char* preset) {
    return count_parameters(build_model(find_model_preset(preset)->config, {}));
  };
  // Weights between layers that both widen are 64 times as many; those of the stem, whose input
  // stays 3 wide, of the norms and of the head 8 times; the classes' biases stay.
  const std::int64_t stem = 7 * 7 * 3 * 64, biases = 1000, head = 2048 * 1000;
  const auto [preset, depth, wide] =
      GENERATE(table<std::string, std::int64_t, std::int64_t>({{"resnet50", 50, 1'517'397'480},
                                                               {"resnet101", 101, 2'729'969'128},
                                                               {"resnet152", 152, 3'728'582'120}}));
  CAPTURE(preset);
  std::int64_t norms = 2 * 64, width = 64;
  for (const std::int64_t blocks : blocks_by_stage(Family::kResnet, depth)) {
    norms += 2 * (blocks * (width + width + 4 * width) + 4 * width);  // and the shortcut's
    width *= 2;
  }
  const std::int64_t between = parameters(preset.c_str()).with_head - stem - biases - head - norms;
  const std::int64_t counted = parameters((preset + "x8").c_str()).with_head;
  CHECK(counted == 8 * stem + biases + 8 * head + 8 * norms + 64 * between);
  CHECK(counted == wide);
}

TEST_CASE("every second block of a Swin Transformer moves its windows, until one is the image") {
  const Graph graph = build_model(find_model_preset("swin-t")->config, {.microbatch = 2});
  std::map<std::int32_t, int> rolls;  // by layer
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kRoll) continue;
    ++rolls[op.layer];
    CHECK(op.attrs->by % (graph.tensors[op.inputs[0]].shape[1]) != 0);
  }
  // Down and across, there and back. The last two of 12 blocks have grids of 7 x 7.
  const std::map<std::int32_t, int> expected = {{1, 4}, {3, 4}, {5, 4}, {7, 4}, {9, 4}};
  CHECK(rolls == expected);
}

TEST_CASE("constants of a Swin Transformer say which patches attend, and how far they are apart") {
  // A grid of 4 x 4 patches in windows of 2 x 2, moved by 1: the last window of a dim holds index 3
  // and, around the end, index 0.
  ModelConfig config;
  config.family = Family::kSwin;
  config.layers = 8, config.hidden = 8, config.heads = 2, config.classes = 5;
  config.channels = 1, config.image_size = 16, config.patch_size = 1, config.window_size = 2;
  set_image_numbers(config);
  const Graph graph = build_model(config, {});
  // Distances -1 to 1 down, each of 3 across. Patches of a window are 0 1 over 2 3.
  std::vector<std::int64_t> rows(16);
  graph.constants.at("positions.2")->fill(rows);
  CHECK(rows == std::vector<std::int64_t>{4, 3, 1,
                                          0,  // of patch 0 to 0, 1 right of it, below, both
                                          5, 4, 2, 1,  //
                                          7, 6, 4, 3,  //
                                          8, 7, 5, 4});
  std::vector<double> mask(4 * 16);
  graph.constants.at("mask.4")->fill(mask);
  const auto rows_of = [&](int window) {
    std::string text;
    for (int pair = 0; pair < 16; ++pair) text += mask.begin()[16 * window + pair] == 0 ? '+' : '-';
    return text;
  };
  CHECK(rows_of(0) == "++++++++++++++++");
  CHECK(rows_of(1) == "+-+--+-++-+--+-+");  // the right ones of each pair came around
  CHECK(rows_of(2) == "++--++----++--++");  // the lower ones
  CHECK(rows_of(3) == "+----+----+----+");
  CHECK(*std::min_element(mask.begin(), mask.end()) == -100);
}

TEST_CASE("a U-Net has the parameters that its levels say") {
  // A double convolution from a to b channels has 9 a b + 9 b b weights and 2 b of each norm. Level
  // i of d has w 2^i channels, the lowest w 2^d; on the way up a window of 2 x 2 halves channels
  // (a / 2 biases) and what is read beside it doubles them again. The head: w weights and 1 bias
  // for each class.
  const auto [size, depth, width, channels, classes] = GENERATE(
      table<int, int, int, int, int>({{32, 1, 8, 1, 2}, {64, 4, 64, 3, 21}, {8, 3, 16, 2, 4}}));
  ModelConfig config;
  config.family = Family::kUnet;
  config.image_size = size, config.depth = depth, config.hidden = width;
  config.channels = channels, config.classes = classes;
  set_image_numbers(config);
  const auto twice = [](std::int64_t a, std::int64_t b) { return 9 * a * b + 9 * b * b + 4 * b; };
  std::int64_t expected = classes * width + classes, from = channels, at = width;
  for (int level = 0; level < depth; ++level, from = at, at *= 2) expected += twice(from, at);
  expected += twice(from, at);
  for (; at > width; at /= 2) expected += 4 * at * at / 2 + at / 2 + twice(at, at / 2);
  CAPTURE(size, depth, width);
  const Graph graph = build_model(config, {.microbatch = 2});
  CHECK(count_parameters(graph).with_head == expected);
  CHECK(graph.num_layers == 2 * depth + 1);
}

TEST_CASE("images that a family cannot read are refused") {
  CHECK(problem_after("vit-b-16", [](ModelConfig& c) { c.patch_size = 15; }) ==
        "patch_size: 15 does not divide image_size, 224");
  CHECK(problem_after("resnet50", [](ModelConfig& c) { c.depth = 51; }) ==
        "depth: no resnet has a depth of 51; expected one of: 18, 34, 50, 101, 152");
  CHECK(problem_after("vgg16", [](ModelConfig& c) { c.image_size = 31; }) ==
        "image_size: expected at least 32, which is halved five times, got 31");
  CHECK(problem_after("resnet50", [](ModelConfig& c) { c.width_factor = 65; }) ==
        "width_factor: expected at most 64, got 65");
  CHECK(problem_after("densenet121", [](ModelConfig& c) { c.classes = 0; }) ==
        "classes: expected at least 1, got 0");
  CHECK(problem_after("vit-b-16", [](ModelConfig& c) { c.image_size = 1 << 16; }) ==
        "image_size: expected at most 32768, got 65536");
  CHECK(problem_after("swin-t", [](ModelConfig& c) { c.image_size = 256; }) ==
        "image_size: 256 is 64 patches along each dim, which windows of 7 do not fill in each of "
        "four stages, halved three times; multiples of 56 patches they do");
  CHECK(problem_after("swin-t", [](ModelConfig& c) { c.layers = 6; }) ==
        "layers: swin has 2, 2, layers - 6 and 2 blocks; expected at least 7, got 6");
  CHECK(problem_after("swin-t", [](ModelConfig& c) { c.heads = 5; }) ==
        "heads: 5 does not divide hidden, 96");
  const auto unet = [](ModelConfig& c) { c.family = Family::kUnet, c.hidden = 16, c.depth = 3; };
  CHECK(problem_after("resnet50", unet) == "none");
  static const auto kUnet = unet;
  CHECK(problem_after("resnet50", [](ModelConfig& c) { kUnet(c), c.image_size = 60; }) ==
        "image_size: 60 is not halved 3 times, as depth says; multiples of 8 are");
  CHECK(problem_after("resnet50", [](ModelConfig& c) { kUnet(c), c.hidden = 12; }) ==
        "hidden: norms are over 8 groups of channels, of which 12 is no multiple");
  CHECK(problem_after("resnet50", [](ModelConfig& c) { kUnet(c), c.depth = 11; }) ==
        "depth: expected at most 10, got 11");
}

TEST_CASE("every depth and many sizes of images build well-formed graphs") {
  for (const char* preset : {"resnet50", "vgg16", "densenet121"}) {
    ModelConfig config = find_model_preset(preset)->config;
    for (const std::int64_t depth : depths_of(config.family)) {
      for (const std::int64_t size : {32, 33, 63, 100, 225}) {
        CAPTURE(preset, depth, size);
        config.depth = depth;
        config.image_size = size;
        set_image_numbers(config);
        const Graph graph = build_model(config, {});
        CHECK(find_violation(graph) == "");
        CHECK(graph.num_layers == config.layers);
      }
    }
  }
}

TEST_CASE("weights of images start as torchvision's") {
  // Uniform over +- b: deviation b / sqrt(3).
  struct Start {
    const char *preset, *parameter;
    Init init;
    double deviation;
  };
  const Start start = GENERATE(values<Start>({
      // kaiming_normal_(mode fan_out): sqrt(2 / (64 x 9)).
      {"resnet18", "layers.0.conv_1.weight", Init::kNormal, std::sqrt(2.0 / 576)},
      {"resnet18", "head.weight", Init::kUniform, 1 / std::sqrt(3 * 512.0)},  // nn.Linear's
      {"resnet18", "head.bias", Init::kUniform, 1 / std::sqrt(3 * 512.0)},
      {"densenet121", "head.weight", Init::kUniform, 1 / std::sqrt(3 * 1024.0)},
      {"densenet121", "head.bias", Init::kZeros, 0},
      {"vgg16", "head.weight", Init::kNormal, 0.01},
      {"vgg16", "head.bias", Init::kZeros, 0},
      // trunc_normal_(sqrt(1 / fan in)) of 3 x 16 x 16 numbers.
      {"vit-b-16", "embedding.patches.weight", Init::kNormal, std::sqrt(1.0 / 768)},
      {"vit-b-16", "embedding.patches.bias", Init::kZeros, 0},
      // xavier_uniform_ of in_proj_weight [3 x 768, 768].
      {"vit-b-16", "encoder.layers.0.attention.qkv.weight", Init::kUniform, std::sqrt(2.0 / 3072)},
      {"vit-b-16", "encoder.layers.0.attention.qkv.bias", Init::kZeros, 0},
      {"vit-b-16", "encoder.layers.0.attention.proj.weight", Init::kUniform,
       1 / std::sqrt(3 * 768.0)},
      {"vit-b-16", "encoder.layers.0.attention.proj.bias", Init::kZeros, 0},
      {"vit-b-16", "encoder.layers.0.mlp.fc1.weight", Init::kUniform, std::sqrt(2.0 / 3840)},
      {"vit-b-16", "encoder.layers.0.mlp.fc2.bias", Init::kNormal, 1e-6},
      {"vit-b-16", "head.weight", Init::kZeros, 0},
      // nn.Conv2d's, of 3 x 4 x 4 numbers.
      {"swin-t", "embedding.patches.weight", Init::kUniform, 1 / std::sqrt(3 * 48.0)},
      {"swin-t", "embedding.patches.bias", Init::kUniform, 1 / std::sqrt(3 * 48.0)},
      {"swin-t", "layers.0.mlp.fc1.weight", Init::kNormal, 0.02},
  }));
  CAPTURE(start.preset, start.parameter);
  const Graph graph = build_model(find_model_preset(start.preset)->config, {.microbatch = 1});
  const auto found = std::find_if(graph.parameters.begin(), graph.parameters.end(),
                                  [&](const Parameter& p) { return p.name == start.parameter; });
  REQUIRE(found != graph.parameters.end());
  CHECK(found->init == start.init);
  if (start.deviation > 0) {
    const double deviation =
        found->parts.empty() ? found->deviation : found->parts.front().deviation;
    CHECK(deviation == Approx(start.deviation).epsilon(1e-6));
  }
}

}  // namespace trainyard::image_models_test
