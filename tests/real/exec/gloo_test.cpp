// Loopback stands for Gloo in the tests by the thousand: the same layouts over both give the same
// first gradients, norms, losses and weights, in full precision.
//
// Both add the same numbers, in another order where more than two ranks add them: one rounding of
// fp64, 1.1e-16, per addition and step, far below the 1e-12 that are asked for.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/real/loopback_run.h"

namespace trainyard::gloo_test {

namespace {

constexpr double kTolerance = 1e-12;

using Tensors = std::map<std::string, std::vector<double>>;

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// Each tensor's difference against its own norm; gradients of key biases are rounding alone, and
/// so is the norm of all times 1e-15.
void check_same(const Tensors& loopback, const Tensors& gloo) {
  double all = 0;
  for (const auto& [name, values] : loopback) all = std::hypot(all, norm_of(values));
  REQUIRE(all > 0);
  REQUIRE(gloo.size() == loopback.size());
  for (const auto& [name, values] : loopback) {
    CAPTURE(name);
    std::vector<double> difference = gloo.at(name);
    REQUIRE(difference.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    CHECK(norm_of(difference) <= kTolerance * norm_of(values) + 1e-15 * all);
  }
}

}  // namespace

TEST_CASE("loopback gives what Gloo gives") {
  const std::vector<std::vector<std::string>> layouts = {
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.sequence_parallel=true"},
      {"cluster.ranks=2", "parallel.pipeline=2", "recompute=full"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.pipeline=2", "parallel.virtual_stages=2",
       "schedule=interleaved"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.tensor=2", "parallel.pipeline=2",
       "parallel.zero=1"},
      {"cluster.ranks=6", "partition={replicas: [2, 4]}", "training.microbatch=4",
       "parallel.zero={stage: 3, replicate: 2}"},
      {"cluster.ranks=8", "partition={replicas: [2, 6]}", "training.microbatch=8",
       "parallel.zero={stage: 3, reshard_after_forward: 2}"}};
  // SGD without clipping carries a wrong gradient on as it is.
  const std::string sgd = "sgd, clip_norm: 0, lr: {peak: 0.05}";
  struct Case {
    std::string model, optimizer;
    std::vector<std::size_t> layouts;
  };
  const std::vector<Case> cases = {
      {"{family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}",
       sgd,
       {0, 1, 2, 3, 4, 5, 6, 7}},
      {"{family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}", "adamw", {0, 3}},
      {"{family: llama, layers: 4, hidden: 32, heads: 8, kv_heads: 4, ffn: 48, vocab: 62, seq_len: "
       "8}",
       sgd,
       {1}},
      {"{family: bert, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}", sgd, {3}},
      {"{family: t5, layers: 2, hidden: 32, heads: 4, head_dim: 8, ffn: 48, vocab: 150, seq_len: "
       "16, decoder_seq_len: 8}",
       sgd,
       {4}}};
  for (const Case& one : cases) {
    for (const std::size_t layout : one.layouts) {
      CAPTURE(one.model, layouts[layout], one.optimizer);
      const std::string study =
          "model: " + one.model + "\ncluster: {preset: local, ranks: 1}\n" +
          "training: {global_batch: 8, microbatch: 1, precision: fp64, optimizer: " +
          one.optimizer + "}\ndata: {path: synthetic}\n";
      const LoopbackRun loopback = run_loopback(study, layouts[layout], {.steps = 3});
      const LoopbackRun gloo =
          run_loopback(study, layouts[layout], {.steps = 3, .over_gloo = true});
      check_same(loopback.gradients, gloo.gradients);
      check_same(loopback.weights, gloo.weights);
      for (std::size_t step = 0; step < loopback.losses.size(); ++step) {
        CHECK(gloo.losses[step] == Approx(loopback.losses[step]).epsilon(kTolerance));
        CHECK(gloo.gradient_norms[step] ==
              Approx(loopback.gradient_norms[step]).epsilon(kTolerance));
      }
    }
  }
}

}  // namespace trainyard::gloo_test
