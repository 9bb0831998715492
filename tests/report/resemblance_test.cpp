// Which published runs a study is like: all features equal, the run itself left out, else the
// nearest with what differs; and the table of them, as text.
#include "report/resemblance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "app/published_runs.h"
#include "calibrate/validate/validated_runs.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::resemblance_test {

namespace {

RunFeatures features(const std::string& framework, const std::string& precision = "bf16") {
  return {framework, "a100-sxm", "text", "yes", "no", "no", "1", "full", precision, "no"};
}

const std::vector<ScoredCase> kRuns = {{"a", features("nemo"), 4},
                                       {"b", features("nemo"), -6},
                                       {"c", features("nemo", "fp16"), 1},
                                       {"d", features("megatron-lm 2021"), 2},
                                       {"e", features("megatron-lm 2021"), 3}};

std::vector<std::string> ids(const RunGroup& group) { return group.ids; }

}  // namespace

TEST_CASE("runs with all features alike count, with the mean of their absolute errors") {
  const Resemblance found = find_resemblance(features("nemo"), kRuns, "");
  CHECK(ids(found.alike) == std::vector<std::string>{"a", "b"});
  CHECK(found.alike.mean_abs_percent == Approx((4 + 6) / 2.0));
  CHECK(found.nearest.ids.empty());
  CHECK(
      resemblance_json(found) ==
      nlohmann::ordered_json::parse(R"({"runs": 2, "mean_abs_percent": 5.0, "ids": ["a", "b"]})"));
  CHECK(resemblance_text(found) ==
        "resembles 2 published runs, whose step times are predicted 5.0 % off in the mean: a, b");
}

TEST_CASE("a published run does not resemble itself") {
  CHECK(ids(find_resemblance(features("nemo"), kRuns, "b").alike) == std::vector<std::string>{"a"});
  const Resemblance alone = find_resemblance(features("nemo", "fp16"), kRuns, "c");
  CHECK(alone.alike.ids.empty());
  CHECK(ids(alone.nearest) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("where none is alike, the nearest say in what they differ; the same framework first") {
  // One feature away are nemo in bf16 (2 runs) and fp16 of another framework, of which none is
  // here; megatron-lm 2021 in bf16 is two away.
  const Resemblance found = find_resemblance(features("nemo", "fp32"), kRuns, "");
  CHECK(ids(found.nearest) == std::vector<std::string>{"a", "b"});
  REQUIRE(found.differs.size() == 1);
  CHECK(found.differs[0].feature == "precision");
  CHECK(found.differs[0].study == "fp32");
  CHECK(found.differs[0].runs == "bf16");
  const auto json = resemblance_json(found);
  CHECK(json["runs"] == 0);
  CHECK(json["mean_abs_percent"].is_null());
  CHECK(json["nearest"]["ids"].size() == 2);
  CHECK(json["nearest"]["differs"][0]["runs"] == "bf16");
  CHECK(resemblance_text(found) ==
        "resembles no published run; nearest are 2 published runs, whose step times are predicted "
        "5.0 % off in the mean: a, b\n    there precision is bf16, not fp32");
  // Models of other data are no measure: one feature of images differs here, two of text.
  std::vector<ScoredCase> runs = {{"images", features("nemo"), 1},
                                  {"text", features("megatron-lm 2021", "fp16"), 2}};
  runs[0].features[2] = "images";
  CHECK(ids(find_resemblance(features("nemo"), runs, "").nearest) ==
        std::vector<std::string>{"text"});
  RunFeatures pairs = features("nemo");
  pairs[2] = "other";
  CHECK(find_resemblance(pairs, runs, "").nearest.ids.empty());
  // All are one away from another framework: the most runs.
  CHECK(find_resemblance(features("merak"), kRuns, "").nearest.ids.size() == 2);
  CHECK(resemblance_text(find_resemblance(features("nemo"), {}, "")) ==
        "there are no published runs of such models to compare it with");
}

TEST_CASE("features are of what a study uses, not of its size") {
  const std::string base =
      "model: {family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 2}\n"
      "training: {global_batch: 32, precision: fp16, flash_attention: false}\n"
      "framework: {name: megatron-lm, version: 2021}\nrecompute: full\n";
  const auto of = [&](const std::vector<std::string>& sets) {
    const Prepared prepared = prepare_text(base, sets);
    return features_of(prepared.study, prepared.model);
  };
  const RunFeatures two = of({"parallel.tensor=2", "parallel.zero=1"});
  CHECK(two == RunFeatures{"megatron-lm 2021", "a100-sxm", "text", "yes", "no", "no", "1", "full",
                           "fp16", "no"});
  CHECK(of({"parallel.tensor=4", "parallel.zero=1", "model.layers=2"}) == two);
  CHECK(of({"parallel.tensor=1", "parallel.zero=1"}) != two);
  CHECK(of({"parallel.tensor=2", "parallel.zero=1", "recompute=none"}) != two);
}

TEST_CASE("a model from an ONNX file is compared with runs of what it reads") {
  const auto kind = [](const std::string& file, const std::string& more) {
    const Prepared prepared = prepare_text(
        "model: {onnx: " TRAINYARD_SOURCE_DIR "/tests/golden/onnx/" + file + ".onnx" + more +
        "}\ncluster: {preset: dgx-a100-80g, nodes: 1}\ntraining: {global_batch: 8}\n");
    return features_of(prepared.study, prepared.model)[2];
  };
  for (const std::string file : {"gpt2-script", "bert-dynamo", "roberta-script", "llama-dynamo"})
    CHECK(kind(file, ", axes: {seq: 8}") == "text");
  for (const std::string file : {"vit-script", "resnet-dynamo", "unet-script"})
    CHECK(kind(file, "") == "images");
  CHECK(kind("recommender-script", ", loss: mean_square") == "other");
  // Where runs of text and of images are, one of images is not the nearest of a text's.
  std::vector<ScoredCase> runs = {{"text", features("nemo", "fp16"), 1},
                                  {"images", features("trainyard"), 2}};
  runs[1].features[2] = "images";
  CHECK(ids(find_resemblance(features("trainyard"), runs, "").nearest) ==
        std::vector<std::string>{"text"});
}

TEST_CASE("the table of published runs reads back, and is refused at the cell that is wrong") {
  Validation validation;
  CaseOutcome outcome;
  outcome.facts.id = "a, of two";
  outcome.prediction.features = features("nemo");
  validation.outcomes.push_back(outcome);
  ErrorRow row;
  row.error_percent = 4.126;
  validation.rows.push_back(row);  // not scored
  row.scored = true;
  validation.rows.push_back(row);
  const std::string text = validated_runs_csv(validation);
  const auto runs = read_validated_runs(text, "runs.csv");
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].id == "a  of two");
  CHECK(runs[0].error_percent == 4.13);
  CHECK(runs[0].features == features("nemo"));
  const std::string header = text.substr(0, text.find('\n') + 1);
  CHECK_THROWS_WITH(read_validated_runs(header + "a,off\n", "runs.csv"),
                    "runs.csv:2:3: expected a number in column 2, got 'off'");
  CHECK_THROWS_WITH(read_validated_runs("id\n", "runs.csv"),
                    Catch::Contains("runs.csv:1:1: expected the header 'id,error_percent,"));
}

TEST_CASE("a study of SC'21 resembles published runs of its kind") {
  const auto runs = published_runs(source_root());
  CHECK(runs.size() > 300);
  const Prepared prepared = prepare_text(
      "model: gpt3-175b\ncluster: {preset: dgx-a100-80g, nodes: 128}\n"
      "parallel: {tensor: 8, pipeline: 16}\n"
      "training: {global_batch: 1536, precision: fp16, flash_attention: false}\n"
      "recompute: full\nframework: {name: megatron-lm, version: 2021}\n");
  const Resemblance found = find_resemblance(features_of(prepared.study, prepared.model), runs, "");
  CHECK(std::count(found.alike.ids.begin(), found.alike.ids.end(), "megatron_sc21_gpt3_1024") == 1);
  CHECK(found.alike.mean_abs_percent < 15);
}

}  // namespace trainyard::resemblance_test
