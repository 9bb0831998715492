// Every layout of a model trains as a single device does: the first step's gradient of every
// weight, the gradient norms and the losses are the same, up to the rounding of sums taken in
// another order.
//
// What is compared is chosen so that a wrong gradient cannot hide. AdamW does not see a gradient
// that is wrong by a factor, so losses alone would not tell; the first step's gradients do, and
// plain SGD without clipping carries every error on.
#include "tests/real/parity.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/real/layouts.h"

namespace trainyard::parity_test {

namespace {

std::array<std::string, 10> values_of(const Layout& l) {
  return {std::to_string(l.data),
          std::to_string(l.tensor),
          std::to_string(l.pipeline),
          std::to_string(l.virtual_stages),
          std::to_string(l.sequence_parallel),
          std::to_string(l.zero),
          l.recompute,
          std::to_string(l.microbatch),
          l.schedule,
          std::to_string(l.dropout)};
}

/// Greedily few layouts in which every pair of values that can meet does.
std::vector<Layout> pairwise(const std::vector<Layout>& all) {
  using Pair = std::pair<std::string, std::string>;
  const auto pairs_of = [](const Layout& layout) {
    const auto values = values_of(layout);
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t k = i + 1; k < values.size(); ++k) {
        pairs.emplace_back(std::to_string(i) + "=" + values[i],
                           std::to_string(k) + "=" + values[k]);
      }
    }
    return pairs;
  };
  std::map<Pair, bool> met;
  for (const Layout& layout : all) {
    for (const Pair& pair : pairs_of(layout)) met[pair] = false;
  }
  std::vector<Layout> out;
  for (;;) {
    std::size_t most = 0;
    const Layout* best = nullptr;
    for (const Layout& layout : all) {
      const auto pairs = pairs_of(layout);
      const auto fresh = static_cast<std::size_t>(
          std::count_if(pairs.begin(), pairs.end(), [&](const Pair& pair) { return !met[pair]; }));
      if (fresh > most) most = fresh, best = &layout;
    }
    if (best == nullptr) return out;
    for (const Pair& pair : pairs_of(*best)) met[pair] = true;
    out.push_back(*best);
  }
}

void check_family(const std::string& family) {
  std::map<bool, LoopbackRun> one;
  const std::string training =
      "precision: fp64, optimizer: sgd, clip_norm: 0, lr: {peak: 0.05}, weight_decay: 0, dropout: ";
  for (const Layout& layout : pairwise(all_layouts())) {
    if (!fits(family, layout)) continue;
    const std::string text = parity_study(family, training + (layout.dropout ? "0.1" : "0"));
    if (!one.contains(layout.dropout)) one[layout.dropout] = run_loopback(text, {}, {.steps = 2});
    std::string sets;
    for (const std::string& set : sets_of(layout)) sets += set + " ";
    CAPTURE(family, sets, layout.dropout);
    check_same(one[layout.dropout], run_loopback(text, sets_of(layout), {.steps = 2}), kFp64);
  }
}

}  // namespace

TEST_CASE("layouts of a GPT train alike in fp64") { check_family("gpt"); }
TEST_CASE("layouts of a Llama train alike in fp64") { check_family("llama"); }
TEST_CASE("layouts of a BERT train alike in fp64") { check_family("bert"); }
TEST_CASE("layouts of a BERT with next sentence train alike in fp64") { check_family("bert-next"); }
TEST_CASE("layouts of a T5 train alike in fp64") { check_family("t5"); }

TEST_CASE("a T5's decoder is recomputed from its embedding under tensor parallelism") {
  // Three factors at once, which a set that covers pairs may leave out; bench/layout_product tries
  // all.
  const std::string text =
      parity_study("t5", "precision: fp64, optimizer: sgd, clip_norm: 0, dropout: 0");
  const LoopbackRun one = run_loopback(text, {}, {.steps = 2});
  check_same(
      one,
      run_loopback(text, {"cluster.ranks=2", "parallel.tensor=2", "recompute=full"}, {.steps = 2}),
      kFp64);
}

TEST_CASE("layouts train alike in fp32 over twenty steps") {
  const std::vector<std::vector<std::string>> layouts = {
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
      {"cluster.ranks=8", "parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2",
       "parallel.zero=1", "parallel.sequence_parallel=true", "recompute=full"}};
  for (const std::string family : {"gpt", "llama", "t5"}) {
    for (const std::string optimizer :
         {"sgd, clip_norm: 0, lr: {peak: 0.05}", "adamw, lr: {peak: 1e-3}"}) {
      const std::string text =
          parity_study(family, "precision: fp32, dropout: 0, optimizer: " + optimizer);
      const LoopbackRun one = run_loopback(text, {}, {.steps = 20});
      for (const auto& sets : layouts) {
        if (family != "gpt" && &sets != &layouts.front()) continue;
        CAPTURE(family, optimizer, sets);
        check_same(one, run_loopback(text, sets, {.steps = 20}), kFp32);
      }
    }
  }
}

TEST_CASE(
    "layouts in 16-bit types train to the same weights, as near as those types hold what leads "
    "there") {
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::string text =
        parity_study("gpt", "precision: " + precision + ", dropout: 0, lr: {peak: 1e-3}");
    const LoopbackRun before = run_loopback(text, {}, {.steps = 0});
    const LoopbackRun one = run_loopback(text, {}, {.steps = 20});
    const LoopbackRun many =
        run_loopback(text,
                     {"cluster.ranks=8", "parallel.tensor=2", "parallel.pipeline=2",
                      "parallel.data=2", "parallel.zero=1"},
                     {.steps = 20});
    CAPTURE(precision);
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      CHECK(many.losses[step] == Approx(one.losses[step]).epsilon(2e-3));
      CHECK(many.gradient_norms[step] ==
            Approx(one.gradient_norms[step]).epsilon(1e-2).margin(step == 0 ? 0 : 5e-2));
    }
    // Where one device's training took each tensor, and how far from there the layout's took it.
    // AdamW makes steps of the same size of the rounding that is all the gradient of a key's bias.
    for (const auto& [name, start] : before.masters) {
      CAPTURE(name);
      double way = 0, apart = 0;
      for (std::size_t i = 0; i < start.size(); ++i) {
        way += std::pow(one.masters.at(name)[i] - start[i], 2);
        apart += std::pow(many.masters.at(name)[i] - one.masters.at(name)[i], 2);
      }
      CHECK(way > 0);
      if (!name.ends_with(".k.bias")) CHECK(std::sqrt(apart / way) < 0.1);
    }
  }
}

// A GPU's kernels may not look at numbers, so some of them are others than a CPU's. They are
// LibTorch's general operators, which run here too.
TEST_CASE("kernels that look at no number train as those that do") {
  for (const std::string family : {"gpt", "llama", "bert", "bert-next", "t5"}) {
    for (const std::string optimizer :
         {"sgd, clip_norm: 0.1, lr: {peak: 0.05}", "adamw, lr: {peak: 1e-3}"}) {
      const std::string dropout = family == "llama" ? "0" : "0.1";
      const std::string text = parity_study(
          family, "precision: fp64, dropout: " + dropout + ", optimizer: " + optimizer);
      for (const std::string tensor : {"1", "2"}) {
        const std::vector<std::string> sets = {"cluster.ranks=" + tensor,
                                               "parallel.tensor=" + tensor};
        CAPTURE(family, optimizer, tensor);
        const LoopbackRun usual = run_loopback(text, sets, {.steps = 3});
        check_same(usual, run_loopback(text, sets, {.steps = 3, .deferred = true}), kFp64);
        // In fp32 AdamW's fused update divides by the clip factor itself.
        std::vector<std::string> in_fp32 = sets;
        in_fp32.push_back("training.precision=fp32");
        check_same(run_loopback(text, in_fp32, {.steps = 3}),
                   run_loopback(text, in_fp32, {.steps = 3, .deferred = true}), kFp32);
      }
    }
  }
}

TEST_CASE("an update whose gradients overflowed is left out, with and without a look at the norm") {
  // The gradient of a logit is about (p - 1) times the scale over 64 tokens: far beyond fp16's
  // 65504.
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const std::string text = parity_study(
        "gpt", "precision: fp16, dropout: 0, loss_scale: 1073741824, optimizer: " + optimizer);
    const LoopbackRun before = run_loopback(text, {}, {.steps = 0});
    for (const bool deferred : {false, true}) {
      CAPTURE(optimizer, deferred);
      const LoopbackRun run = run_loopback(text, {}, {.steps = 2, .deferred = deferred});
      CHECK_FALSE(std::isfinite(run.gradient_norms[0]));
      CHECK(run.weights == before.weights);
    }
  }
}

// Run by hand where there is a GPU: real_test "[gpu]".
TEST_CASE("a GPU trains as a CPU does", "[.gpu]") {
  for (const std::string family : {"gpt", "llama", "bert", "bert-next", "t5"}) {
    for (const std::string recompute : {"none", "full"}) {
      const std::string dropout = family == "llama" ? "0" : "0.1";
      const auto train = [&](const std::string& precision, const std::string& optimizer, int steps,
                             bool gpu) {
        return run_loopback(parity_study(family, "precision: " + precision + ", dropout: " +
                                                     dropout + ", optimizer: " + optimizer),
                            {"recompute=" + recompute}, {.steps = steps, .gpu = gpu});
      };
      CAPTURE(family, recompute);
      const std::string sgd = "sgd, clip_norm: 0, lr: {peak: 0.05}",
                        adamw = "adamw, lr: {peak: 1e-3}";
      check_same(train("fp64", sgd, 3, false), train("fp64", sgd, 3, true), kFp64);
      check_same(train("fp32", sgd, 20, false), train("fp32", sgd, 20, true), kFp32);
      check_same(train("fp32", adamw, 20, false), train("fp32", adamw, 20, true), kFp32);
      const LoopbackRun host = train("bf16", adamw, 20, false),
                        gpu = train("bf16", adamw, 20, true);
      for (std::size_t step = 0; step < host.losses.size(); ++step) {
        CHECK(gpu.losses[step] == Approx(host.losses[step]).epsilon(2e-2));
      }
    }
  }
}

}  // namespace trainyard::parity_test
