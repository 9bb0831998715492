// `training.precision` as fp8: words, defaults by framework and device, what the resolved study
// says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::fp8_test {

namespace {

using Sets = std::vector<std::string>;

const std::string kStudy =
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, vocab: 1000, seq_len: 128}\n"
    "cluster: {gpu: h100-sxm-80g, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "parallel: {tensor: 2, sequence_parallel: true}\n"
    "training: {global_batch: 4, precision: fp8}\n";

Study read(const Sets& sets) { return prepare_text(kStudy, sets).study; }
Fp8Config fp8(const Sets& sets = {}) { return read(sets).training.fp8; }

std::string refused(const Sets& sets) {
  try {
    read(sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Why the plan cannot run; "": it can.
std::string reason(const Sets& sets) {
  try {
    const Prepared prepared = prepare_text(kStudy, sets);
    PassLog log;
    const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
    const auto* infeasible = std::get_if<Infeasible>(&compiled);
    return infeasible == nullptr ? "" : infeasible->reason;
  } catch (const PlanError& error) {
    return error.what();
  }
}

bool warns(const Study& study, const std::string& words) {
  return std::any_of(study.warnings.begin(), study.warnings.end(), [&](const std::string& warning) {
    return warning.find(words) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("fp8 alone takes the framework's recipe, and all else is bf16") {
  CHECK(read({}).training.precision == DType::kBf16);
  CHECK(fp8().recipe == Fp8Recipe::kTensorwise);
  CHECK_FALSE(fp8().gathers);
  for (const char* framework : {"framework=nemo", "framework=megatron-lm"}) {
    CHECK(fp8({framework}).recipe == Fp8Recipe::kDelayed);
    CHECK(fp8({framework}).gathers);
  }
  CHECK(fp8({"framework=megatron-bridge"}).recipe == Fp8Recipe::kTensorwise);
  CHECK(fp8({"framework=megatron-bridge"}).gathers);
  const std::string rowwise = "training.precision={type: fp8, recipe: rowwise}";
  CHECK(fp8({rowwise, "framework=nemo"}).recipe == Fp8Recipe::kRowwise);
  CHECK_FALSE(fp8({rowwise, "framework=nemo"}).gathers);
  CHECK(fp8({"training.precision={type: fp8, gather: fp8}"}).gathers);
  CHECK_FALSE(fp8({"training.precision=bf16"}).on());
  CHECK_FALSE(fp8({"training.precision={type: bf16}"}).on());
}

TEST_CASE("a resolved study says the recipe, and is read back as it is") {
  const Study study = read({"training.precision={type: fp8, recipe: delayed}", "framework=nemo"});
  const std::string text = resolved_study_text(study);
  CHECK(text.find("recipe: delayed") != std::string::npos);
  CHECK(text.find("gather: fp8") != std::string::npos);
  const Study again = prepare_text(text).study;
  CHECK(again.training == study.training);
}

TEST_CASE("devices decide what FP8 can be") {
  CHECK(fp8().transposes);  // Hopper's products sum over the last dim
  CHECK(reason({}).empty());
  CHECK_THAT(
      reason({"cluster.gpu=a100-sxm-80g"}),
      Catch::Contains("training.precision: the plan cannot run: a100-sxm-80g has no rate for "
                      "products in fp8"));
  // Before a planner asks what products take.
  const Sets v100 = {"cluster.gpu=v100-sxm-32g", "parallel.sequence_parallel=false"};
  const std::vector<Sets> planned = {
      {"parallel.tensor_method=map"},
      {"parallel.tensor=1", "parallel.pipeline=2", "schedule=1f1b", "partition=rannc"},
      {"parallel.tensor=1", "parallel.pipeline=2", "schedule=1f1b", "partition=search"}};
  for (const Sets& sets : planned) {
    CAPTURE(sets);
    Sets all = v100;
    all.insert(all.end(), sets.begin(), sets.end());
    CHECK_THAT(reason(all), Catch::Contains("v100-sxm-32g has no rate for products in fp8"));
  }
  const std::string mx = "training.precision={type: fp8, recipe: mx}";
  CHECK(reason({mx}).find("32 elements") != std::string::npos);
  CHECK(reason({mx, "cluster.gpu=b200"}).empty());
  CHECK_FALSE(fp8({"cluster.gpu=b200"}).transposes);
  const Study cpu = read({"cluster={preset: local, ranks: 2, device: cpu}"});
  CHECK(cpu.training.fp8.obstacle.empty());
  CHECK(warns(cpu, "emulated by casts"));
}

TEST_CASE("what FP8 does not go with is refused at its key") {
  CHECK(refused({"training.precision={type: fp8, recipe: rowwise, gather: fp8}"})
            .find("training.precision.gather: fp8 goes with the recipes tensorwise and delayed") !=
        std::string::npos);
  CHECK(refused({"training.precision={type: bf16, recipe: rowwise}"})
            .find("training.precision.recipe: is for fp8; leave it out") != std::string::npos);
  CHECK(
      refused({"training.precision={type: fp8, recipe: hybrid}"}).find("unknown recipe 'hybrid'") !=
      std::string::npos);
  CHECK(refused({"parallel={pipeline: 2}", "schedule={method: 1f1b, post_validation: true}"})
            .find("schedule.post_validation: does not go with precision fp8") != std::string::npos);
  const Study unused =
      read({"parallel.sequence_parallel=false", "training.precision={type: fp8, gather: fp8}"});
  CHECK(warns(unused, "training.precision.gather is not used"));
  // As study.resolved.yaml says what a framework does by itself.
  CHECK_FALSE(warns(read({"framework=torchtitan", "parallel.sequence_parallel=false",
                          "training.precision={type: fp8, gather: fp8}"}),
                    "training.precision.gather is not used"));
}

TEST_CASE("gathers of weights in 8 bits are stage 3's, by the largest element of a weight") {
  const auto zero = [](const std::string& keys) {
    return "parallel.zero={stage: 3, gather_dtype: fp8" + keys + "}";
  };
  const Study study = read({zero(", precompute_scales: true")});
  CHECK(study.parallel.zero.gathers_fp8);
  CHECK(study.parallel.zero.precomputes_scales);
  CHECK(prepare_text(resolved_study_text(study)).study.parallel == study.parallel);
  CHECK_FALSE(read({"parallel.zero=3"}).parallel.zero.gathers_fp8);
  const auto refused_as = [](const Sets& sets, const std::string& words) {
    return refused(sets).find("parallel.zero.gather_dtype: fp8 " + words) != std::string::npos;
  };
  CHECK(refused_as({"parallel.zero={stage: 2, gather_dtype: fp8}"},
                   "is of stage 3: stage 2 gathers no parameters"));
  CHECK(refused_as({zero(""), "training.precision=bf16"}, "is of weights that FP8 products read"));
  for (const std::string recipe : {"delayed", "rowwise", "blockwise-128", "mx"}) {
    CAPTURE(recipe);
    CHECK(refused_as({zero(""), "training.precision={type: fp8, recipe: " + recipe + "}"},
                     "goes with recipe tensorwise"));
  }
  CHECK(refused_as({zero(""), "framework=nemo"}, "goes with recipe tensorwise"));
  CHECK(refused_as({zero(", reshard_after_forward: 2")}, "goes with reshard_after_forward"));
  CHECK(refused_as({zero(", offload: parameters")}, "casts shards on the device"));
  CHECK(warns(read({"parallel.zero={stage: 3, precompute_scales: true}"}),
              "parallel.zero.precompute_scales is not used"));
  CHECK(warns(read({zero(""), "cluster.gpus=2"}), "parallel.zero.gather_dtype is not used"));
}

TEST_CASE("a model without linear layers in its blocks has nothing to cast") {
  const std::string problem =
      reason({"model={family: llama, layers: 4, hidden: 24, heads: 2, vocab: 1000, seq_len: 128, "
              "ffn: 40}"});
  CHECK(problem.find("of which the model's blocks have none") != std::string::npos);
  // 96 / 4 = 24.
  CHECK(reason({"model.ffn=96", "parallel.tensor=4"}).find("each rank has 24 of a dim of") == 0);
}

}  // namespace trainyard::fp8_test
