// Training in 8 bits on several ranks: the scale of a whole tensor is that of one rank, so that the
// same numbers are cast, and losses are the same as near as bf16 holds what leads there.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/real/fp8_casts.h"
#include "tests/real/layouts.h"
#include "tests/real/loopback_run.h"
#include "tests/real/resumed_run.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/unlike_degrees.h"

namespace trainyard::fp8_test {

namespace {

std::string study(const std::string& family, const std::string& recipe,
                  const std::string& gather = "bf16") {
  const std::string text =
      parity_study(family, "precision: {type: fp8, recipe: " + recipe + ", gather: " + gather +
                               "}, dropout: 0, lr: {peak: 1e-3}");
  const auto ffn = text.find("ffn: 48");  // of which two ranks have no multiples of 16
  return ffn == std::string::npos ? text : std::string(text).replace(ffn, 7, "ffn: 64");
}

void check_near(const LoopbackRun& one, const LoopbackRun& many, double tolerance) {
  REQUIRE(one.losses.size() == many.losses.size());
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    CAPTURE(step);
    CHECK(many.losses[step] == Approx(one.losses[step]).epsilon(tolerance));
  }
}

/// In fp32 where bf16 would be, so that no rounding but that of the casts is large.
void widen_bf16(Program& program) {
  for (Value& value : program.values)
    value.dtype = value.dtype == DType::kBf16 ? DType::kFp32 : value.dtype;
}

/// Layouts whose microbatches have the sequences that one rank's have: all 8 of a step.
const std::vector<Sets> kLayouts = {
    {"cluster.ranks=2", "parallel.data=2", "training.microbatch=4"},
    {"cluster.ranks=2", "parallel.tensor=2", "training.microbatch=8"},
    {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2", "training.microbatch=4",
     "parallel.sequence_parallel=true", "parallel.zero=1"},
    {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_method=map", "training.microbatch=8"},
    {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method={name: map, mesh: [2, 2]}",
     "training.microbatch=8"}};

}  // namespace

TEST_CASE("ranks that have parts of a tensor cast by the scale that one rank has") {
  const std::string yaml = study("gpt", "tensorwise");
  // What the first layer's qkv reads comes from embedding and norm, row by row: no layout rounds
  // it otherwise. And weights, of which a rank has some rows or columns.
  for (const std::string name :
       {"decoder.layers.0.norm_1.", "decoder.layers.0.attention.qkv.weight",
        "decoder.layers.0.mlp.fc2.weight"}) {
    const std::set<float> of_one = scales_of_run(yaml, {"training.microbatch=8"}, name);
    REQUIRE(of_one.size() == 1);
    for (const Sets& layout : kLayouts) {
      CAPTURE(name, layout);
      CHECK(scales_of_run(yaml, layout, name) == of_one);
    }
  }
}

TEST_CASE("losses in FP8 are those of one rank") {
  LoopbackOptions options{.steps = 2};
  options.plant = widen_bf16;
  for (const std::string recipe : {"tensorwise", "delayed"}) {
    for (const std::string family : {"gpt", "llama"}) {
      const std::string yaml = study(family, recipe);
      const LoopbackRun one = run_loopback(yaml, {"training.microbatch=8"}, options);
      for (const Sets& layout : kLayouts) {
        CAPTURE(recipe, family, layout);
        const LoopbackRun many = run_loopback(yaml, layout, options);
        CHECK(many.losses[0] == Approx(one.losses[0]).epsilon(1e-6));
        CHECK(many.gradient_norms[0] == Approx(one.gradient_norms[0]).epsilon(1e-4));
        check_near(one, many, 2e-4);
      }
    }
  }
}

TEST_CASE("losses in FP8 on pipeline ranks of unlike tensor degrees are those of one rank") {
  for (const std::string recipe : {"tensorwise", "delayed"}) {
    for (const std::string family : {"gpt", "llama"}) {
      const std::string yaml = study(family, recipe);
      LoopbackOptions options{.steps = 2};
      options.plant = widen_bf16;
      const LoopbackRun one = run_loopback(yaml, {"training.microbatch=8"}, options);
      for (const std::vector<int>& degrees : {std::vector<int>{1, 2}, std::vector<int>{2, 1}}) {
        CAPTURE(recipe, family, degrees);
        const Sets sets = joined(sets_of_degrees(degrees), {"training.microbatch=8"});
        options.plant = [&](Program& program) {
          program = unlike_degrees_program(prepare_text(yaml, sets), degrees);
          widen_bf16(program);
        };
        const LoopbackRun many = run_loopback(yaml, sets, options);
        CHECK(many.program.mesh.num_ranks() == 3);
        CHECK(many.losses[0] == Approx(one.losses[0]).epsilon(1e-6));
        CHECK(many.gradient_norms[0] == Approx(one.gradient_norms[0]).epsilon(1e-4));
        check_near(one, many, 2e-4);
        // The scales of the step before are in the checkpoint.
        const ScratchFolder folder;
        const LoopbackRun resumed = run_resumed(yaml, ResumedLayout{sets, options.plant},
                                                {sets, options.plant}, folder.path(), 1, 0, 2);
        CHECK(resumed.losses[1] == many.losses[1]);
      }
    }
  }
}

TEST_CASE("layouts train alike in FP8 under every recipe") {
  for (const std::string recipe : {"tensorwise", "delayed", "rowwise", "blockwise-128", "mx"}) {
    for (const std::string family : {"gpt", "llama"}) {
      CAPTURE(recipe, family);
      const std::string yaml = study(family, recipe);
      const LoopbackRun one = run_loopback(yaml, {}, {.steps = 10});
      check_near(one,
                 run_loopback(yaml, {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2"},
                              {.steps = 10}),
                 2e-3);
    }
  }
}

TEST_CASE("gathers of 8 bits change no number") {
  const Sets layout = {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2",
                       "parallel.sequence_parallel=true", "parallel.zero=1"};
  for (const std::string recipe : {"tensorwise", "delayed"}) {
    CAPTURE(recipe);
    const LoopbackRun wide = run_loopback(study("llama", recipe), layout, {.steps = 4});
    const LoopbackRun narrow = run_loopback(study("llama", recipe, "fp8"), layout, {.steps = 4});
    CHECK(wide.losses == narrow.losses);
    CHECK(wide.masters == narrow.masters);
  }
}

TEST_CASE("recomputation and Gloo change no number of FP8") {
  const std::string yaml = study("llama", "tensorwise");
  const LoopbackRun kept = run_loopback(yaml, {}, {.steps = 3});
  const LoopbackRun again = run_loopback(yaml, {"recompute=full"}, {.steps = 3});
  CHECK(kept.losses == again.losses);
  CHECK(kept.masters == again.masters);
  const Sets layout = {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true",
                       "training.precision={type: fp8, gather: fp8}"};
  const LoopbackRun memory = run_loopback(yaml, layout, {.steps = 2});
  const LoopbackRun gloo = run_loopback(yaml, layout, {.steps = 2, .over_gloo = true});
  CHECK(memory.losses == gloo.losses);
}

namespace {

std::string zero(const std::string& keys) { return "parallel.zero={stage: 3" + keys + "}"; }
Sets with_zero(Sets layout, const std::string& keys) {
  layout.push_back(zero(keys));
  return layout;
}

const Sets kTwo = {"cluster.ranks=2", "parallel.data=2", "training.microbatch=4"};
const Sets kFour = {"cluster.ranks=4", "parallel.data=4", "training.microbatch=2"};
const Sets kTensor = {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2",
                      "training.microbatch=4", "parallel.sequence_parallel=true"};

}  // namespace

TEST_CASE("weights gathered in 8 bits train as one rank does") {
  LoopbackOptions options{.steps = 2};
  options.plant = widen_bf16;
  const std::vector<Sets> layouts = {
      with_zero(kTwo, ", gather_dtype: fp8"),
      with_zero(kFour, ", gather_dtype: fp8, precompute_scales: true, layout: per-parameter"),
      with_zero(kFour, ", gather_dtype: fp8, replicate: 2"),
      with_zero(kTensor, ", gather_dtype: fp8, precompute_scales: true")};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string yaml = study(family, "tensorwise");
    const LoopbackRun one = run_loopback(yaml, {"training.microbatch=8"}, options);
    for (const Sets& layout : layouts) {
      CAPTURE(family, layout);
      const LoopbackRun many = run_loopback(yaml, layout, options);
      CHECK(many.losses[0] == Approx(one.losses[0]).epsilon(1e-6));
      CHECK(many.gradient_norms[0] == Approx(one.gradient_norms[0]).epsilon(1e-4));
      check_near(one, many, 2e-4);
    }
  }
}

TEST_CASE("weights gathered in 8 bits have the scales of one rank") {
  // Those of the layer's fc2 and qkv; ranks have some rows of each, or none.
  const std::string yaml = study("gpt", "tensorwise");
  const auto of_one = [&](const std::string& name) {
    return scales_of_run(yaml, {"training.microbatch=8"}, name);
  };
  const std::set<float> all =
      shard_scales_of_run(yaml, with_zero(kFour, ", gather_dtype: fp8, precompute_scales: true"));
  for (const std::string name :
       {"decoder.layers.0.attention.qkv.weight", "decoder.layers.1.mlp.fc2.weight"}) {
    CAPTURE(name);
    REQUIRE(of_one(name).size() == 1);
    CHECK(all.contains(*of_one(name).begin()));
  }
  // As many as all weights have together, whatever the layout.
  CHECK(all == shard_scales_of_run(yaml, with_zero(kTensor, ", gather_dtype: fp8")));
  CHECK(all ==
        shard_scales_of_run(yaml, with_zero(kFour, ", gather_dtype: fp8, layout: per-parameter")));
}

/// Replicas of each pipeline rank, which share a microbatch.
const Sets kOneAndThree = {"cluster.ranks=4", "partition={replicas: [1, 3]}",
                           "training.microbatch=4"};
const Sets kTwoAndFour = {"cluster.ranks=6", "partition={replicas: [2, 4]}",
                          "training.microbatch=8", "schedule=zb-h1"};

TEST_CASE("gathers of weights in 8 bits change no number") {
  // Without clipping: the norm is summed up by buckets, of which there are more.
  const Sets pipeline = {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2",
                         "schedule=zb-h1", "recompute=full"};
  const Sets eight = {"cluster.ranks=8", "parallel.data=4", "parallel.tensor=2"};
  const std::vector<std::pair<Sets, std::string>> layouts = {
      {kTwo, ""},
      {kFour, ", layout: per-parameter"},
      {kFour, ", prefetch: 0, layout: per-parameter, precompute_scales: true"},
      {kFour, ", prefetch: 3, gathers_in_flight: 2, replicate: 2"},
      {kFour, ", replicate: 2, layout: per-parameter, reshard_after_forward: false"},
      {kTensor, ", reshard_after_forward: false, precompute_scales: true"},
      {eight, ", layout: per-parameter, reduce: last"},
      {pipeline, ", precompute_scales: true"},
      {pipeline, ", layout: per-parameter, reshard_after_forward: false"},
      {kTwo, ", units: ['*attention', '*.mlp'], offload: optimizer"},
      {kOneAndThree, ", precompute_scales: true"},
      {kOneAndThree, ", layout: per-parameter, reduce: last"},
      {kTwoAndFour, ", replicate: 2, precompute_scales: true"},
      {kTwoAndFour, ", layout: per-parameter, reshard_after_forward: false"}};
  for (const auto& [layout, keys] : layouts) {
    for (const std::string family : {"gpt", "llama"}) {
      CAPTURE(family, layout, keys);
      const std::string yaml = study(family, "tensorwise");
      const auto run = [&](const std::string& type) {
        Sets sets = with_zero(layout, ", gather_dtype: " + type + keys);
        sets.emplace_back("training.clip_norm=0");
        return run_loopback(yaml, sets, {.steps = 3});
      };
      const LoopbackRun wide = run("bf16"), narrow = run("fp8");
      CHECK(wide.losses == narrow.losses);
      CHECK(wide.masters == narrow.masters);
    }
  }
}

TEST_CASE("weights gathered in 8 bits go over Gloo, and on from a checkpoint") {
  const std::string yaml = study("llama", "tensorwise");
  for (const std::string keys : {", gather_dtype: fp8, precompute_scales: true, layout: "
                                 "per-parameter",
                                 ", gather_dtype: fp8"}) {
    const Sets layout = with_zero(kTwo, keys);
    const LoopbackRun memory = run_loopback(yaml, layout, {.steps = 4});
    const LoopbackRun gloo = run_loopback(yaml, layout, {.steps = 4, .over_gloo = true});
    CHECK(memory.losses == gloo.losses);
    const ScratchFolder folder;
    const LoopbackRun resumed = run_resumed(yaml, layout, folder / "checkpoints", 3, 1, 4);
    for (const std::size_t step : {2, 3}) CHECK(resumed.losses[step] == memory.losses[step]);
    CHECK(resumed.masters == memory.masters);
  }
}

}  // namespace trainyard::fp8_test
