// Training on files: a file that holds what is generated trains as that does, to the bit; on any
// ranks, and stopped and resumed, as on one.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "real/data/samples.h"
#include "tests/real/data/written_tensors.h"
#include "tests/real/parity.h"
#include "tests/real/resumed_run.h"
#include "tests/support/studies.h"

namespace trainyard::file_training_test {

namespace {

constexpr int kBatch = 4, kSteps = 3, kSamples = kBatch * kSteps;

std::string study_of(const std::string& model, const std::string& precision,
                     const std::string& data) {
  return "model: " + model + "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: " +
         std::to_string(kBatch) + ", microbatch: 2, precision: " + precision +
         ", clip_norm: 0.01, lr: {peak: 0.01}}\ndata: " + data + "\n";
}

/// The first kSamples of what is generated for such a study, as one file.
void write_generated(const std::string& path, const std::string& generated,
                     const std::vector<std::int64_t>& image,
                     const std::vector<std::int64_t>& label) {
  const auto samples = make_samples(prepare_text(generated).study);
  const auto elements = [](const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return count;
  };
  Numbered<float> images(kSamples * elements(image));
  Numbered<std::int64_t> labels(kSamples * elements(label));
  for (int i = 0; i < kSamples; ++i) {
    samples->fill_numbers("images", i, {&images[i * elements(image)], images.size() / kSamples});
    samples->fill("labels", i, {&labels[i * elements(label)], labels.size() / kSamples});
  }
  const auto of_all = [](std::vector<std::int64_t> shape) {
    shape.insert(shape.begin(), kSamples);
    return shape;
  };
  write_safetensors(path,
                    {{"images", DType::kFp32, of_all(image), bytes_of<float>(images)},
                     {"labels", DType::kInt64, of_all(label), bytes_of<std::int64_t>(labels)}});
}

const std::string kVit =
    "{family: vit, layers: 2, hidden: 16, heads: 2, image_size: 8, patch_size: 4, classes: 5}";
const std::string kResnet = "{family: resnet, depth: 18, image_size: 32, classes: 5}";

}  // namespace

TEST_CASE("a file of what is generated trains as it does, to the bit") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::string on_file = "{path: " + path + ", shuffle: false}";
  const auto check = [&](const std::string& model, const std::string& precision,
                         const std::vector<std::int64_t>& image,
                         const std::vector<std::int64_t>& label) {
    CAPTURE(model, precision);
    const std::string generated = study_of(model, precision, "{path: generated}");
    write_generated(path, generated, image, label);
    const LoopbackRun one = run_loopback(generated, {}, {.steps = kSteps});
    const LoopbackRun other =
        run_loopback(study_of(model, precision, on_file), {}, {.steps = kSteps});
    CHECK(other.losses == one.losses);
    CHECK(other.gradient_norms == one.gradient_norms);
    CHECK((other.weights == one.weights));
    CHECK(one.losses[0] != one.losses[1]);
  };
  check(kResnet, "fp32", {3, 32, 32}, {});
  check(kResnet, "fp64", {3, 32, 32}, {});
  check("{family: unet, depth: 2, hidden: 32, image_size: 8, classes: 3}", "fp64", {3, 8, 8},
        {8, 8});
  check(kVit, "fp32", {3, 8, 8}, {});
}

TEST_CASE("a shuffled file trains on any ranks as on one, and goes on as one that never stopped") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  write_generated(path, study_of(kVit, "fp64", "{path: generated}"), {3, 8, 8}, {});
  // Five steps: the second epoch begins in the fourth.
  const std::string study = study_of(kVit, "fp64", "{path: " + path + "}");
  const LoopbackRun one = run_loopback(study, {}, {.steps = 5});
  CHECK(one.losses != run_loopback(study, {"data.shuffle=false"}, {.steps = 5}).losses);
  for (const Sets& layout : {Sets{"cluster.ranks=2", "parallel.data=2", "training.microbatch=1"},
                             Sets{"cluster.ranks=2", "parallel.pipeline=2"}}) {
    CAPTURE(layout);
    check_same(one, run_loopback(study, layout, {.steps = 5}), kFp64);
  }
  const LoopbackRun resumed = run_resumed(study, {}, folder / "checkpoints", 3, 1, 5);
  for (std::size_t step = 2; step < 5; ++step) {
    CAPTURE(step);
    CHECK(resumed.losses[step] == one.losses[step]);
    CHECK(resumed.gradient_norms[step] == one.gradient_norms[step]);
  }
  CHECK((resumed.weights == one.weights));
}

}  // namespace trainyard::file_training_test
