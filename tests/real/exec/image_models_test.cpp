// Models of images train as one device does: cut anywhere, over replicas of equal and unlike
// numbers, with batch norms over all samples of a microbatch.
#include <catch2/catch.hpp>
#include <string>

#include "real/exec/rank_executor.h"
#include "tests/real/exec/as_one_device.h"
#include "tests/real/test_device.h"

namespace trainyard::image_models_test {

TEST_CASE("a vision transformer trains as one device does") {
  const std::string study = study_of(
      "{family: vit, layers: 4, hidden: 32, heads: 4, image_size: 12, patch_size: 4, classes: 5}",
      8, 2);
  check_all(
      study,
      {replicas(2, 2),
       {"cluster.ranks=2", "parallel.tensor=2"},
       {"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}"},
       {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
       {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_overlap=block"},
       {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1", "training.microbatch=1"},
       pipeline(4, "1f1b"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [1], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a residual network trains as one device does, and has the same running averages") {
  const auto check = [](const std::string& study, const std::vector<Sets>& layouts) {
    const LoopbackRun one = run_loopback(study, {}, {.steps = 2});
    for (const Sets& layout : layouts) {
      CAPTURE(layout);
      const LoopbackRun many = run_loopback(study, layout, {.steps = 2});
      check_same(one, many, kFp64);
      for (const char* name : {"stem.norm.running_mean", "layers.7.norm_2.running_var"}) {
        const auto &a = one.weights.at(name), &b = many.weights.at(name);
        REQUIRE(a.size() == b.size());
        for (std::size_t i = 0; i < a.size(); ++i)
          REQUIRE(b[i] == Approx(a[i]).epsilon(1e-9).margin(1e-10));
      }
    }
  };
  const std::string model =
      "{family: resnet, depth: 18, image_size: 48, classes: 5, batch_norm: synchronised}";
  check(study_of(model, 8, 2), {pipeline(2, "1f1b"),
                                pipeline(4, "gpipe"),
                                joined(pipeline(2, "zb-h1"), {"recompute=full"}),
                                {"cluster.ranks=2", "partition={cuts: [2, 5], on: [0, 1, 0]}"},
                                {"cluster.ranks=2", "parallel.tensor=2",
                                 "sharding={'layers.*.conv_1': {weight: [tp, R, R, R]}}"},
                                {"cluster.ranks=2", "parallel.tensor=2",
                                 "sharding={'layers.*.conv_2': {weight: [R, tp, R, R]}}"}});
  check(study_of(model, 8, 8),
        {replicas(2, 4),
         joined(replicas(4, 2), {"parallel.zero=1"}),
         joined(replicas(4, 2), {"parallel.zero={stage: 1, by: parameter}"}),
         {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "training.microbatch=4"},
         {"cluster.ranks=4", "partition={cuts: [3], replicas: [1, 3]}"}});
}

TEST_CASE("replicas that normalise by themselves train as one that does so for each") {
  // One rank's microbatches of 4 samples are normalised as those of each of two replicas are.
  const std::string model = "{family: resnet, depth: 18, image_size: 48, classes: 5}";
  check_all(study_of(model, 8, 4), {replicas(2, 4)});
}

TEST_CASE("batch norms keep running averages, one microbatch after the other") {
  // As PyTorch's momentum of 0.1 has it: r = 0.9 r + 0.1 s for the mean and the unbiased variance s
  // of each microbatch, in order, from 0 and 1 on.
  const std::string text =
      study_of("{family: resnet, depth: 18, image_size: 32, classes: 5}", 8, 2);
  std::vector<double> mean(64, 0), variance(64, 1);
  LoopbackOptions options;
  options.steps = 2;
  options.ready = [&](std::int64_t, RankExecutor& executor) {
    executor.hooks().result = [&](const ProgramOp& op, Microbatch, const at::Tensor& made) {
      const Program& program = executor.plan().program();
      if (op.kind != OpKind::kConv2d || op.part != OpPart::kForward ||
          program.modules[op.module] != "stem.conv")
        return;
      finish_test_device();
      const at::Tensor seen = made.contiguous().cpu();  // [2, 64, 16, 16]
      const double* x = seen.const_data_ptr<double>();
      constexpr int kPixels = 256, kElements = 2 * kPixels;
      for (std::size_t channel = 0; channel < 64; ++channel) {
        double sum = 0, squares = 0;
        for (std::size_t sample = 0; sample < 2; ++sample) {
          for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
            const double value = x[(sample * 64 + channel) * kPixels + pixel];
            sum += value, squares += value * value;
          }
        }
        const double of_mean = sum / kElements;
        const double of_variance = (squares - sum * of_mean) / (kElements - 1);
        mean[channel] = 0.9 * mean[channel] + 0.1 * of_mean;
        variance[channel] = 0.9 * variance[channel] + 0.1 * of_variance;
      }
    };
  };
  const LoopbackRun one = run_loopback(text, {}, options);
  // The momentum is an fp32 number: 0.1 to 1.5e-8 of itself.
  for (std::size_t channel = 0; channel < 64; ++channel) {
    CHECK(one.weights.at("stem.norm.running_mean")[channel] ==
          Approx(mean[channel]).epsilon(1e-6).margin(1e-8));
    CHECK(one.weights.at("stem.norm.running_var")[channel] ==
          Approx(variance[channel]).epsilon(1e-6));
  }
  CHECK(one.gradients.count("stem.norm.running_mean") == 0);
}

TEST_CASE("a dense network and a stack of convolutions train as one device does") {
  check_all(study_of("{family: densenet, depth: 121, image_size: 64, classes: 5, batch_norm: "
                     "synchronised}",
                     4, 4),
            {pipeline(4, "1f1b"), replicas(2, 2)});
  check_all(study_of("{family: vgg, depth: 11, image_size: 32, classes: 5}", 4, 2),
            {pipeline(2, "1f1b"), replicas(2, 2), {"cluster.ranks=2", "parallel.tensor=2"}});
}

TEST_CASE("a Swin Transformer trains as one device does") {
  // Grids of 16, 8, 4 and 2 patches in windows of 2: all but the last move them.
  const std::string model =
      "{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: 2, window_size: "
      "2, classes: 5}";
  check_all(study_of(model, 4, 2, ", dropout: 0.2"),
            {replicas(2, 2), {"cluster.ranks=2", "parallel.tensor=2"}, pipeline(2, "1f1b")});
  check_all(
      study_of(model, 8, 2),
      {replicas(2, 2),
       replicas(4, 2),
       {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1", "training.microbatch=1"},
       {"cluster.ranks=2", "parallel.tensor=2"},
       pipeline(4, "1f1b"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[3]"},
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [3], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a U-Net trains as one device does") {
  const std::string study = study_of(
      "{family: unet, depth: 2, hidden: 8, image_size: 16, channels: 3, classes: 5}", 8, 2);
  check_all(
      study,
      {replicas(2, 2),
       joined(replicas(4, 2), {"parallel.zero=1"}),
       pipeline(2, "1f1b"),
       pipeline(3, "gpipe"),
       joined(pipeline(2, "zb-h1"), {"recompute=full"}),
       {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "partition=[2]"},
       {"cluster.ranks=2", "partition={cuts: [1, 4], on: [0, 1, 0]}"},
       {"cluster.ranks=2", "parallel.tensor=2",
        "sharding={'layers.*.conv_1': {weight: [tp, R, R, R]}}"},
       {"cluster.ranks=4", "training.microbatch=4", "partition={cuts: [2], replicas: [1, 3]}"}},
      2);
}

TEST_CASE("a run of a model of images goes on from other layouts, and they from it") {
  const std::string training = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}";
  const auto study = [&](const std::string& model) {
    return "model: " + model +
           "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 8, microbatch: 8, " +
           training + "}\ndata: {path: synthetic}\n";
  };
  check_goes_on(study("{family: vit, layers: 4, hidden: 32, heads: 4, image_size: 12, patch_size: "
                      "4, classes: 5}"),
                {"cluster.ranks=2", "parallel.tensor=2"},
                {pipeline(2, "1f1b"), joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: swin, layers: 8, hidden: 16, heads: 2, image_size: 32, patch_size: "
                      "2, window_size: 2, classes: 5}"),
                {"cluster.ranks=2", "parallel.tensor=2"}, {pipeline(2, "1f1b")});
  check_goes_on(study("{family: unet, depth: 2, hidden: 8, image_size: 16, classes: 5}"),
                pipeline(2, "1f1b"), {joined(replicas(4, 2), {"parallel.zero=1"})});
  check_goes_on(study("{family: resnet, depth: 18, image_size: 32, classes: 5, batch_norm: "
                      "synchronised}"),
                pipeline(2, "1f1b"), {joined(replicas(2, 4), {"parallel.zero=1"})});
}

}  // namespace trainyard::image_models_test
