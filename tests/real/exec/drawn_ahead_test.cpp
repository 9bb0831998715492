// A rank whose host runs ahead of its device draws the next step's inputs meanwhile: it trains as
// one that draws them when it needs them, and fails as that does.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "real/exec/rank_executor.h"
#include "tests/real/data/written_tensors.h"
#include "tests/real/parity.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::drawn_ahead_test {

namespace {

const std::string kTraining =
    "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 4, microbatch: 2, clip_norm: "
    "0.01, lr: {peak: 0.01}, precision: ";

std::string study_of(const std::string& model, const std::string& precision,
                     const std::string& data) {
  return "model: " + model + kTraining + precision + "}\ndata: " + data + "\n";
}

const std::string kVit =
    "{family: vit, layers: 2, hidden: 16, heads: 2, image_size: 8, patch_size: 4, classes: 5}";

}  // namespace

namespace {

struct Trained {
  LoopbackRun run;
  std::map<std::int64_t, std::vector<at::Tensor>> inputs;  // [rank]: all that it has loaded
};

Trained train(const std::string& study, const Sets& layout, bool deferred) {
  Trained out;
  std::mutex mutex;
  LoopbackOptions options{.steps = 4, .deferred = deferred};
  options.ready = [&](std::int64_t rank, RankExecutor& executor) {
    executor.hooks().result = [&, rank](const ProgramOp& op, Microbatch, const at::Tensor& result) {
      if (op.kind != OpKind::kLoad) return;
      const std::lock_guard lock(mutex);
      out.inputs[rank].push_back(result.clone());
    };
  };
  out.run = run_loopback(study, layout, options);
  return out;
}

}  // namespace

TEST_CASE("inputs that are drawn ahead are those that would be drawn when they are needed") {
  const auto check = [](const std::string& study, const Sets& layout) {
    CAPTURE(study, layout);
    const Trained one = train(study, layout, false), other = train(study, layout, true);
    // Norms and clip factors of a device that nobody may look at are summed in another order.
    const bool is_fp64 = study.find("precision: fp64") != std::string::npos;
    check_same(one.run, other.run, is_fp64 ? kFp64 : kFp32);
    REQUIRE(one.inputs.size() == other.inputs.size());
    for (const auto& [rank, inputs] : one.inputs) {
      const std::vector<at::Tensor>& theirs = other.inputs.at(rank);
      REQUIRE(inputs.size() == theirs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) REQUIRE(at::equal(inputs[i], theirs[i]));
    }
    REQUIRE_FALSE(one.inputs.empty());
  };
  for (const std::string precision : {"fp64", "fp32"})
    check(study_of(kVit, precision, "{path: generated}"), {});
  check(study_of("{family: resnet, depth: 18, image_size: 64, classes: 5}", "fp64",
                 "{path: generated}"),
        {});
  check(parity_study("bert", "precision: fp64"), {});
  check(parity_study("gpt", "precision: fp64"), {"cluster.ranks=2", "parallel.pipeline=2"});
  check(parity_study("gpt", "precision: fp64"), {"cluster.ranks=2", "parallel.data=2"});
  // Steps that run again.
  check(parity_study("gpt", "precision: fp64"),
        {"cluster.ranks=2", "parallel.pipeline=2",
         "schedule={method: zb-1p, post_validation: true}", "training.clip_norm=0.01"});
}

TEST_CASE("what is rounded to 16 bits ahead is what a tensor of 16 bits would have got") {
  const std::string study = study_of(kVit, "bf16", "{path: generated}");
  const Trained one = train(study, {}, false), other = train(study, {}, true);
  const auto images = [](const Trained& of) {
    std::vector<at::Tensor> out;
    for (const at::Tensor& input : of.inputs.at(0)) {
      if (input.is_floating_point()) out.push_back(input.to(at::kFloat).reshape({-1}));
    }
    return at::cat(out);
  };
  REQUIRE(images(one).numel() == 4 * 4 * 3 * 8 * 8);  // steps, samples, pixels
  REQUIRE(at::equal(images(one), images(other)));
  // The same samples in fp32, which LibTorch rounds.
  const Trained wide = train(study_of(kVit, "fp32", "{path: generated}"), {}, true);
  REQUIRE(at::equal(images(wide).to(at::kBFloat16).to(at::kFloat), images(other)));
}

TEST_CASE("a label that the model lacks ends the same step, with the same words") {
  const ScratchFolder folder;
  const std::string path = folder / "a.safetensors";
  // Sample 9 of 16 is of the third step of four samples each.
  std::vector<float> images(16 * 3 * 8 * 8, 0.5F);
  std::vector<std::int64_t> labels(16, 1);
  labels[9] = 7;
  write_safetensors(path, {{"images", DType::kFp32, {16, 3, 8, 8}, bytes_of(images)},
                           {"labels", DType::kInt64, {16}, bytes_of(labels)}});
  const std::string study = study_of(kVit, "fp32", "{path: " + path + ", shuffle: false}");
  const auto failure = [&](bool deferred) {
    LoopbackOptions options{.steps = 4, .deferred = deferred};
    int steps = 0;
    options.between_steps = [&](std::int64_t, RankTrainer&) { ++steps; };
    try {
      run_loopback(study, {}, options);
    } catch (const ConfigError& error) {
      return std::to_string(steps) + " begun: " + error.what();
    }
    return std::string("none");
  };
  const std::string here = failure(false);
  REQUIRE_THAT(here, Catch::StartsWith("3 begun: ") &&
                         Catch::Contains("is 7; the model has the classes 0 to 4"));
  REQUIRE(failure(true) == here);
}

}  // namespace trainyard::drawn_ahead_test
