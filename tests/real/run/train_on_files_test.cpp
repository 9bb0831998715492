// `trainyard train` on files of images, as a user has them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/data/written_tensors.h"
#include "tests/real/run/training_folder.h"

namespace trainyard::train_on_files_test {

namespace {

/// 20 images of bytes in two shards, dark ones of class 0 and light ones of class 1.
void write_images(const std::string& folder) {
  std::filesystem::create_directory(folder);
  for (const std::string shard : {"a", "b"}) {
    std::vector<std::uint8_t> pixels(10 * 3 * 8 * 8), labels(10);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::size_t image = i / (3 * 8 * 8);
      labels[image] = image % 2;
      pixels[i] = static_cast<std::uint8_t>(i % 100 + (image % 2) * 150);
    }
    write_safetensors(folder + "/" + shard + ".safetensors",
                      {{"images", DType::kUint8, {10, 3, 8, 8}, bytes_of(pixels)},
                       {"labels", DType::kUint8, {10}, bytes_of(labels)}});
  }
}

void write_study(const TrainingFolder& folder, const std::string& classes) {
  write_text(folder.path("study.yaml"),
             "model: {family: vit, layers: 2, hidden: 16, heads: 2, image_size: 8, patch_size: 4, "
             "classes: " +
                 classes +
                 "}\n"
                 "cluster: {preset: local, ranks: 1}\n"
                 "training: {global_batch: 10, microbatch: 5, precision: fp32, steps: 60, lr: "
                 "{peak: 0.01}, timeout_s: 60}\n"
                 "data: {path: images, mean: [0.5, 0.5, 0.5], std: 0.25}\n"
                 "checkpoint: {every: 30}\n");
}

std::vector<double> losses_of(const std::string& run) {
  std::ifstream in(run + "/losses.csv");
  std::string line;
  std::vector<double> losses;
  for (std::getline(in, line); std::getline(in, line);)
    losses.push_back(std::stod(line.substr(line.find(',') + 1)));
  return losses;
}

}  // namespace

TEST_CASE("a folder of images is learnt") {
  const TrainingFolder folder;
  write_images(folder.path("images"));
  write_study(folder, "2");
  const Answer run = folder.train("--ranks 2 --set parallel.data=2 --out " + folder.path("run"));
  CAPTURE(run.err);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Catch::Contains("images: 20 samples an epoch in 2 files, shuffled"));
  const std::vector<double> losses = losses_of(folder.path("run"));
  REQUIRE(losses.size() == 60);
  CHECK(losses[0] == Approx(0.6931).epsilon(0.01));  // ln 2: the head's weights begin at 0
  CHECK(losses[59] < 0.1);
  // The same run from its own account of the study, in another folder.
  const std::string resolved = read_text(folder.path("run") + "/study.resolved.yaml");
  CHECK_THAT(resolved, Catch::Contains("  path: " + folder.path("images")) &&
                           Catch::Contains("  mean: [0.5, 0.5, 0.5]"));

  // What was learnt, as transformers has it, is where another run begins.
  const std::string out = folder.path("hf");
  REQUIRE(folder.shell(std::string(TRAINYARD) + " export " + folder.path("run") + " --out " + out)
              .exit == 0);
  CHECK_THAT(read_text(out + "/config.json"), Catch::Contains("ViTForImageClassification"));
  const Answer on = folder.train("--steps 1 --weights " + out + " --out " + folder.path("on"));
  CAPTURE(on.err);
  REQUIRE(on.exit == 0);
  CHECK(losses_of(folder.path("on")).at(0) < 0.2);
}

TEST_CASE("a class that the model lacks ends the run with its place") {
  const TrainingFolder folder;
  write_images(folder.path("images"));
  write_study(folder, "1");
  const Answer run = folder.train("--out " + folder.path("run"));
  CAPTURE(run.err);
  CHECK(run.exit == 2);
  CHECK_THAT(run.err, Catch::Contains("images/") &&
                          Catch::Contains(" is 1; the model has the classes 0 to 0"));
}

TEST_CASE("a folder without images is said at its line before anything runs") {
  const TrainingFolder folder;
  write_study(folder, "2");
  const Answer run = folder.train("--out " + folder.path("run"));
  CHECK(run.exit == 2);
  CHECK_THAT(run.err, Catch::Contains("study.yaml:4:14: data.path: " + folder.path("images") +
                                      ": No such file or directory"));
}

}  // namespace trainyard::train_on_files_test
