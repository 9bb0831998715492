// A plan that has no Program, as the study that says it is told so.
#include "study/compile_study.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/presets.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::compile_study_test {

namespace {

/// 64 stages x 70,000 microbatches are 2 x 64 x 70,000 = 8,960,000 actions; 2^23 are compiled.
const std::string kTooMany =
    "model: {family: gpt, layers: 64, hidden: 64, heads: 4, vocab: 130, seq_len: 32}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 8}\n"
    "parallel: {pipeline: 64, data: 1}\n"
    "training: {global_batch: 70000, microbatch: 1}\n";
const std::string kReason =
    "the plan cannot run: 64 stages x 70000 microbatches are 8960000 actions a step; this version "
    "compiles up to 8388608";

PlanError error_of_plan(const std::vector<std::string>& sets) {
  const Prepared prepared = prepare_text(kTooMany, sets);
  PassLog log;
  const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
  REQUIRE(std::holds_alternative<Infeasible>(compiled));
  return plan_error(prepared.study, std::get<Infeasible>(compiled));
}

}  // namespace

TEST_CASE("why a plan cannot run is said at the key that is to blame") {
  const PlanError error = error_of_plan({});
  CHECK(std::string(error.what()) == "study.yaml:4:26: training.global_batch: " + kReason);
  CHECK(to_string(error.where()) == "study.yaml:4:26");
}

TEST_CASE("an option that wrote the key to blame is named") {
  const std::string set = "training.global_batch=70000";
  CHECK(std::string(error_of_plan({set}).what()) ==
        "study.yaml:4:26: training.global_batch: " + kReason + " (set by --set " + set + ")");
}

TEST_CASE("where no single key is to blame, the file is named") {
  Study study;
  study.file = "study.yaml";
  const PlanError error = plan_error(study, Infeasible{"who knows"});
  CHECK(std::string(error.what()) == "study.yaml: the plan cannot run: who knows");
  CHECK(to_string(error.where()) == "study.yaml");
}

TEST_CASE("the resolved form of every preset is of the same model") {
  for (const ModelPreset& preset : model_presets()) {
    CAPTURE(preset.name);
    const Study study = prepare_text("model: " + std::string(preset.name) +
                                     "\ncluster: {preset: dgx-a100-80g, nodes: 1}\n"
                                     "training: {global_batch: 1024, microbatch: 128}\n"
                                     "parallel: {data: 8}\n")
                            .study;
    CHECK(prepare_text(resolved_study_text(study)).study.model == study.model);
  }
}

}  // namespace trainyard::compile_study_test
