// Files of tensors for families of the zoo: images of vit and unet, pairs of ncf and clip.
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "models/model.h"
#include "tests/real/data/data_studies.h"
#include "tests/real/data/written_tensors.h"

namespace trainyard::family_files_test {

namespace {

/// Images of two by two and texts of `seq_len` tokens, in groups of `contrast`, which are a step.
Study study_of_pairs(const std::string& path, int seq_len, int contrast) {
  Study study = study_of(Family::kClip, path, 9, seq_len);
  ModelConfig& model = study.model;
  model.layers = 1, model.hidden = 4, model.heads = 1;
  model.image_layers = 1, model.image_hidden = 4, model.image_heads = 1, model.projection_dim = 2;
  model.channels = 1, model.image_size = 2, model.patch_size = 2, model.contrast = contrast;
  study.training.microbatch = study.training.global_batch = contrast;
  return study;
}

}  // namespace

TEST_CASE("families of images read files of them") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  Study study = study_of(Family::kVit, path, 0, 1);
  study.data.shuffle = false;
  study.training.microbatch = 1;
  ModelConfig& model = study.model = {};
  model.family = Family::kVit;
  model.layers = 1, model.hidden = 4, model.heads = 1, model.kv_heads = 1, model.head_dim = 4;
  model.ffn = 8, model.channels = 2, model.image_size = 2, model.patch_size = 1, model.classes = 3;
  set_image_numbers(model);
  std::vector<std::uint8_t> pixels(16);
  pixels[9] = 255;
  write_safetensors(path, {{"images", DType::kUint8, {2, 2, 2, 2}, bytes_of(pixels)},
                           integers("labels", {1, 2})});
  const auto samples = make_samples(study);
  CHECK(numbers(*samples, "images", 1, 8) == std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0});
  CHECK(input(*samples, "labels", 1, 1) == Tokens{2});
  CHECK(input(*samples, "positions", 0, 5) == Tokens{0, 1, 2, 3, 4});
  CHECK(input(*samples, "class_tokens", 0, 1) == Tokens{0});

  model.family = Family::kUnet;  // a class for every pixel
  model.depth = 1, model.hidden = 32;
  set_image_numbers(model);
  write_safetensors(
      path,
      {{"images", DType::kUint8, {2, 2, 2, 2}, bytes_of(pixels)},
       {"labels", DType::kUint8, {2, 2, 2}, bytes_of<std::uint8_t>({0, 1, 2, 1, 0, 0, 0, 3})}});
  const auto of_pixels = make_samples(study);
  CHECK(of_pixels->predicted_per_sample() == 4);
  CHECK(input(*of_pixels, "labels", 0, 4) == Tokens{0, 1, 2, 1});
  CHECK(config_error([&] { input(*of_pixels, "labels", 1, 4); }) ==
        path + ": labels of sample 1, element 3, is 3; the model has the classes 0 to 2");
}

TEST_CASE("pairs of images and texts are read by name, and told apart within their group") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  Study study = study_of_pairs(path, 3, 2);
  study.data.shuffle = false;
  std::vector<std::uint8_t> pixels(12);
  pixels[4] = 255;  // the first of sample 1
  const auto write = [&](const std::vector<std::int64_t>& tokens) {
    write_safetensors(path, {{"images", DType::kUint8, {3, 1, 2, 2}, bytes_of(pixels)},
                             {"tokens", DType::kInt64, {3, 3}, bytes_of(tokens)}});
  };
  write({0, 1, 8, 2, 3, 8, 4, 5, 8});
  const auto samples = make_samples(study);
  CHECK(numbers(*samples, "images", 1, 4) == std::vector<float>{1, 0, 0, 0});
  CHECK(input(*samples, "tokens", 1, 3) == Tokens{2, 3, 8});
  CHECK(input(*samples, "labels", 1, 2) == Tokens{1, 1});  // the second of its two
  CHECK(input(*samples, "labels", 2, 2) == Tokens{0, 0});
  CHECK(input(*samples, "class_tokens", 2, 1) == Tokens{0});
  CHECK(input(*samples, "positions", 0, 3) == Tokens{0, 1, 2});
  CHECK(samples->predicted_per_sample() == 2);
  write({0, 1, 8, 2, 9, 8, 4, 5, 8});
  const auto beyond = make_samples(study);
  CHECK(config_error([&] { input(*beyond, "tokens", 1, 3); }).find("tokens of sample 1") !=
        std::string::npos);
}

TEST_CASE("no pair of images and texts is twice in a group") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  Study study = study_of_pairs(path, 1, 4);
  const auto samples_of = [&](std::int64_t pairs) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < pairs; ++i) tokens.push_back(i);
    const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(pairs) * 4);
    write_safetensors(path, {{"images", DType::kUint8, {pairs, 1, 2, 2}, bytes_of(pixels)},
                             {"tokens", DType::kInt64, {pairs, 1}, bytes_of(tokens)}});
    return make_samples(study);
  };
  CHECK_THAT(
      config_error([&] { samples_of(3); }),
      Catch::Contains("data.path: 3 pairs are fewer than the 4 of a group (model.contrast)"));
  CHECK_NOTHROW(samples_of(4));
  // An epoch of 6 pairs has one group; in order 2 epochs have three.
  for (const bool shuffle : {true, false}) {
    study.data.shuffle = shuffle;
    const auto samples = samples_of(6);
    std::set<std::int64_t> all;
    for (std::int64_t group = 0; group < 30; ++group) {
      std::set<std::int64_t> pairs;
      for (std::int64_t i = 4 * group; i < 4 * group + 4; ++i)
        pairs.insert(input(*samples, "tokens", i, 1)[0]);
      CHECK(pairs.size() == 4);
      all.insert(pairs.begin(), pairs.end());
    }
    CHECK(all.size() == 6);  // what one epoch leaves out another has
    CHECK((samples->description().find("2 left out of each epoch") != std::string::npos) ==
          shuffle);
  }
}

TEST_CASE("pairs of users and items are read by name") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto samples_of = [&](const std::vector<std::int64_t>& items) {
    write_safetensors(path, {integers("users", {4, 0}),
                             integers("items", items),
                             {"labels", DType::kFp32, {2}, bytes_of<float>({1, 0.25F})}});
    Study study = study_of(Family::kNcf, path, 0, 1);
    study.model.users = 5, study.model.items = 3;
    study.model.hidden = 4, study.model.layers = 1;
    study.data.shuffle = false;
    return make_samples(study);
  };
  const auto samples = samples_of({2, 1});
  CHECK(input(*samples, "users", 0, 1) == Tokens{4});
  CHECK(input(*samples, "items", 0, 1) == Tokens{2});
  CHECK(numbers(*samples, "labels", 1, 1) == std::vector<float>{0.25F});
  const auto beyond = samples_of({2, 3});  // in a table of 3 rows
  CHECK(config_error([&] { input(*beyond, "items", 1, 1); }).find("items") != std::string::npos);
}

}  // namespace trainyard::family_files_test
