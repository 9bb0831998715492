// Steps whose norm is looked at in the next one train as steps that wait for it: clipped or not,
// with every kind of schedule, with shards and owners of the optimizer's state, and where gradients
// are not finite.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/real/corrupted_norm.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::post_validation_test {

namespace {

constexpr int kSteps = 6;

/// 8 layers, so that two stages on each of 4 ranks have one each.
std::string study(const std::string& family, const std::string& training) {
  std::string text = parity_study(family, training);
  text.replace(text.find("layers: 4"), 9, "layers: 8");
  return text;
}

std::string schedule(const std::string& method, bool late) {
  return "schedule={method: " + method + ", post_validation: " + (late ? "true" : "false") + "}";
}

Sets plan(const std::string& method, bool late, const Sets& more = {}) {
  Sets out = {"cluster.ranks=4", "parallel.pipeline=4", schedule(method, late)};
  if (method == "interleaved" || method.ends_with("-v"))
    out.emplace_back("parallel.virtual_stages=2");
  return joined(out, more);
}

/// The middle between the third and the fourth of six norms without clipping.
double middle_norm(const std::string& text, const Sets& sets) {
  std::vector<double> norms =
      run_loopback(text, joined(sets, {"training.clip_norm=0"}), {.steps = kSteps}).gradient_norms;
  std::sort(norms.begin(), norms.end());
  return (norms[kSteps / 2 - 1] + norms[kSteps / 2]) / 2;
}

/// How many steps but the last were clipped: each makes one that follows it void.
int clipped(const LoopbackRun& run, double clip) {
  return static_cast<int>(std::count_if(run.gradient_norms.begin(), run.gradient_norms.end() - 1,
                                        [&](double norm) { return norm + 1e-6 > clip; }));
}

/// Largest difference of a weight, relative to the largest of its tensor, or to 0.02, which weights
/// are drawn with: the true gradient of a key's bias is 0, and what it is trained with is rounding.
double difference(const LoopbackRun& a, const LoopbackRun& b) {
  double worst = 0;
  REQUIRE(a.weights.size() == b.weights.size());
  for (const auto& [name, values] : a.weights) {
    double largest = 0.02, apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      apart = std::max(apart, std::abs(values[i] - b.weights.at(name)[i]));
    }
    worst = std::max(worst, apart / largest);
  }
  return worst;
}

/// Runs the plan both ways, clipped in some steps and not in others, and compares.
void check_plan(const std::string& text, const Sets& waits, const Sets& looks_back) {
  const double clip = middle_norm(text, waits);
  const Sets clipping = {"training.clip_norm=" + std::to_string(clip)};
  const LoopbackRun one = run_loopback(text, joined(waits, clipping), {.steps = kSteps});
  const LoopbackRun late = run_loopback(text, joined(looks_back, clipping), {.steps = kSteps});
  check_same(one, late, kFp64);
  CHECK(difference(one, late) < 1e-10);
  const int expected = clipped(one, std::stod(std::to_string(clip)));
  CHECK(expected > 0);
  CHECK(expected < kSteps - 1);
  for (const std::int64_t repeated : late.repeated) CHECK(repeated == expected);
  for (const std::int64_t repeated : one.repeated) CHECK(repeated == 0);
}

const std::string kAdamW = "precision: fp64, dropout: 0.1, lr: {peak: 0.01}";

}  // namespace

TEST_CASE("every kind of schedule trains with post-validation as without") {
  const std::string text = study("gpt", kAdamW);
  for (const std::string method : {"1f1b", "zb-h1", "zb-2p", "zb-v", "interleaved", "dualpipe-v"}) {
    CAPTURE(method);
    check_plan(text, plan(method, false), plan(method, true));
  }
}

TEST_CASE("weights that nobody shares, and SGD, are corrected as well") {
  check_plan(study("llama", "precision: fp64, dropout: 0, lr: {peak: 0.01}"), plan("zb-2p", false),
             plan("zb-2p", true));
  check_plan(
      study("gpt",
            "precision: fp64, dropout: 0.1, optimizer: sgd, weight_decay: 0.1, lr: {peak: 0.005}"),
      plan("1f1b", false), plan("1f1b", true));
}

TEST_CASE(
    "shards and owners of the state, and tensor parallelism, train with post-validation as "
    "without") {
  const std::string text = study("gpt", kAdamW);
  const std::vector<Sets> layouts = {
      {"parallel.data=2", "parallel.pipeline=2", "parallel.zero=1",
       "training.bucket_elements=3000"},
      {"parallel.data=2", "parallel.pipeline=2", "parallel.zero={stage: 1, by: parameter}"},
      {"parallel.data=2", "parallel.pipeline=2"},
      {"parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence_parallel=true"}};
  for (const Sets& layout : layouts) {
    CAPTURE(layout);
    check_plan(text, plan("zb-h1", false, layout), plan("zb-h1", true, layout));
  }
}

TEST_CASE("gradients and parameters in shards train with post-validation as without") {
  const Sets two = {"parallel.data=2", "parallel.pipeline=2"};
  const std::vector<std::string> zero = {"2",
                                         "{stage: 2, reduce: each}",
                                         "3",
                                         "{stage: 3, reduce: last, prefetch: 0}",
                                         "{stage: 3, reshard_after_forward: false}",
                                         "{stage: 3, layout: per-parameter}",
                                         "{stage: 3, layout: per-parameter, reduce: last}"};
  const std::string text = study("gpt", kAdamW);
  for (const std::string& keys : zero) {
    CAPTURE(keys);
    const Sets layout = joined(two, {"parallel.zero=" + keys});
    check_plan(text, plan("zb-h1", false, layout), plan("zb-h1", true, layout));
  }
  const Sets groups = {"cluster.ranks=8", "parallel.data=4", "parallel.pipeline=2"};
  for (const std::string keys : {"{stage: 1, replicate: 2}", "{stage: 3, replicate: 2}",
                                 "{stage: 3, reshard_after_forward: 2}"}) {
    CAPTURE(keys);
    const Sets layout = joined(groups, {"parallel.zero=" + keys, "recompute=full"});
    check_plan(text, plan("1f1b", false, layout), plan("1f1b", true, layout));
  }
}

TEST_CASE("unlike numbers of replicas train with post-validation as without") {
  const auto on = [](int ranks, const std::string& partition, int microbatch = 4) -> Sets {
    return {"cluster.ranks=" + std::to_string(ranks), "partition={" + partition + "}",
            "training.microbatch=" + std::to_string(microbatch)};
  };
  const auto compare = [](const std::string& text, const std::string& method, const Sets& layout) {
    CAPTURE(method, layout);
    check_plan(text, joined(layout, {schedule(method, false)}),
               joined(layout, {schedule(method, true)}));
  };
  const Sets one_and_three = on(4, "replicas: [1, 3]");
  // Embedding and head are tied: NORM receives behind their sum.
  const std::string gpt = study("gpt", kAdamW);
  compare(gpt, "1f1b", one_and_three);
  compare(gpt, "zb-h1", on(7, "replicas: [1, 2, 3, 1]"));
  compare(gpt, "zb-h1", joined(one_and_three, {"parallel.zero=1"}));
  compare(gpt, "1f1b", joined(one_and_three, {"parallel.zero={stage: 1, by: parameter}"}));
  compare(gpt, "1f1b", joined(on(8, "replicas: [3, 5]", 8), {"parallel.zero=3"}));
  compare(gpt, "1f1b", on(4, "cuts: [1, 3], replicas: [1, 3], on: [0, 1, 0]"));
  compare(gpt, "1f1b",
          joined(on(6, "replicas: [2, 4]"), {"parallel.zero={stage: 1, replicate: 2}"}));
  const std::string llama = study("llama", "precision: fp64, dropout: 0, lr: {peak: 0.01}");
  compare(llama, "zb-2p", on(4, "replicas: [3, 1]", 8));
  compare(llama, "zb-h1", joined(on(8, "replicas: [1, 3]"), {"parallel.tensor=2"}));
}

TEST_CASE("without a clip no step runs twice") {
  const std::string text = study("gpt", kAdamW + ", clip_norm: 0");
  const LoopbackRun one = run_loopback(text, plan("zb-2p", false), {.steps = 3});
  const LoopbackRun late = run_loopback(text, plan("zb-2p", true), {.steps = 3});
  check_same(one, late, kFp64);
  for (const std::int64_t repeated : late.repeated) CHECK(repeated == 0);
}

TEST_CASE("kernels that may not look at numbers update and correct as others do") {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    for (const std::string precision : {"fp64", "fp32"}) {
      CAPTURE(optimizer, precision);
      const std::string text = study(
          "gpt", "precision: " + precision +
                     ", dropout: 0, clip_norm: 0.5, lr: {peak: 0.01}, optimizer: " + optimizer);
      const LoopbackRun now = run_loopback(text, plan("1f1b", true), {.steps = 4});
      const LoopbackRun deferred =
          run_loopback(text, plan("1f1b", true), {.steps = 4, .deferred = true});
      CHECK(now.repeated == deferred.repeated);
      check_same(now, deferred, precision == "fp64" ? kFp64 : kFp32);
    }
  }
}

TEST_CASE("a norm that is not finite undoes what all ranks have done") {
  // The norm of step 2 is made infinite behind everybody's back: without post-validation nobody
  // updates, with it all have, since every part of the norm was finite.
  for (const std::string optimizer : {"adamw", "sgd"}) {
    CAPTURE(optimizer);
    const std::string text = study("gpt",
                                   "precision: fp64, dropout: 0.1, clip_norm: 0, lr: {peak: 0.01}, "
                                   "weight_decay: 0.1, optimizer: " +
                                       optimizer);
    LoopbackOptions waits{.steps = 4}, looks_back{.steps = 4};
    corrupt_norm(waits, "norm.", 2);
    corrupt_norm(looks_back, "replicas.", 3);  // of step 2, in step 3
    const Sets replicas = {"cluster.ranks=8",
                           "parallel.data=2"};  // who tell each other of the norm of all ranks
    const LoopbackRun one = run_loopback(text, plan("1f1b", false, replicas), waits);
    const LoopbackRun late = run_loopback(text, plan("1f1b", true, replicas), looks_back);
    CHECK(std::isinf(one.gradient_norms[1]));
    CHECK(std::isinf(late.gradient_norms[1]));
    for (std::size_t step = 0; step < 4; ++step)
      CHECK(late.losses[step] == Approx(one.losses[step]).epsilon(1e-10));
    CHECK(difference(one, late) < 1e-10);
    for (const std::int64_t repeated : late.repeated) CHECK(repeated == 1);
  }
}

TEST_CASE("an overflow in fp16 repeats the step behind it with the lower scale") {
  // One token: a logit's gradient is the scale times 1 - 1/8192, which fp16 rounds up to infinity
  // at 65536, the first scale; sooner or later a smaller one serves. What all gradients come from
  // is not finite then, so nobody has updated: bit for bit.
  const std::string text =
      "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 8192, seq_len: 1}\n"
      "cluster: {preset: local, ranks: 1}\n"
      "training: {global_batch: 1, microbatch: 1, precision: fp16, dropout: 0, clip_norm: 0, lr: "
      "{peak: 0.01}}\n"
      "data: {path: synthetic}\n";
  const LoopbackRun one = run_loopback(text, plan("1f1b", false), {.steps = 6});
  const LoopbackRun late = run_loopback(text, plan("1f1b", true), {.steps = 6});
  const auto overflows = std::count_if(one.gradient_norms.begin(), one.gradient_norms.end(),
                                       [](double norm) { return !std::isfinite(norm); });
  CHECK_FALSE(std::isfinite(one.gradient_norms[0]));
  CHECK(std::isfinite(one.gradient_norms.back()));
  CHECK(late.losses == one.losses);
  CHECK(late.weights == one.weights);
  for (const std::int64_t repeated : late.repeated) CHECK(repeated == overflows);
}

TEST_CASE("post-validation runs over Gloo as in memory") {
  const std::string text = study("gpt", kAdamW + ", clip_norm: 0.5");
  LoopbackOptions over_gloo{.steps = 3};
  over_gloo.over_gloo = true;
  const LoopbackRun memory = run_loopback(text, plan("zb-2p", true), {.steps = 3});
  const LoopbackRun gloo = run_loopback(text, plan("zb-2p", true), over_gloo);
  check_same(memory, gloo, kFp64);
  CHECK(memory.repeated == gloo.repeated);
}

}  // namespace trainyard::post_validation_test
