// Rows, groups and what is said of them, from a handful of made-up outcomes.
#include "calibrate/validate/validation.h"

#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trainyard::validation_test {

namespace {

struct Made {
  std::string id = {}, family = "paper", framework = "megatron-lm", device = "a100-sxm-80g";
  double measured = 10, predicted = 10;
  std::int64_t gpus = 8;
  std::string suspect = {}, skipped = {};
  std::optional<double> memory = {}, predicted_memory = {};
};

CaseOutcome outcome(const Made& made) {
  CaseOutcome out;
  out.facts.id = made.id;
  out.facts.source = out.facts.family = made.family;
  out.facts.framework = made.framework;
  out.facts.device = made.device;
  out.facts.num_gpus = made.gpus;
  out.facts.suspect = made.suspect;
  if (made.measured > 0) out.facts.iteration_time = made.measured;
  out.facts.peak_memory_gib = made.memory;
  Prediction& p = out.prediction;
  p.skipped = made.skipped.empty() ? "" : "cases.yaml:1:1: " + made.skipped;
  p.reason = made.skipped;
  if (!p.skipped.empty()) return out;
  p.framework = made.framework;
  p.framework_version = "2022";
  p.device = made.device;
  p.num_gpus = made.gpus;
  p.iteration_time = made.predicted;
  p.time[Ingredient::kProducts] = made.predicted;
  p.peak_memory_gib = made.predicted_memory.value_or(1);
  return out;
}

Validation example() {
  return validate(
      "cases.yaml",
      {outcome({.id = "a", .predicted = 11}),
       outcome({.id = "b", .predicted = 7, .gpus = 64, .memory = 20, .predicted_memory = 21}),
       outcome({.id = "c", .family = "page", .predicted = 30, .suspect = "odd"}),
       outcome({.id = "d", .family = "page", .skipped = "no ZeRO 3", .memory = 5}),
       outcome(
           {.id = "e", .framework = "nemo", .measured = 0, .memory = 10, .predicted_memory = 8})});
}

}  // namespace

TEST_CASE("time and memory are rows of their own, suspect and skipped ones are not scored") {
  const Validation v = example();
  // a: time; b: both; c: time; d: both; e has no measured time: memory alone.
  REQUIRE(v.rows.size() == 7);
  CHECK(v.time.all.stats.n == 2);
  CHECK(v.time.all.stats.mean_abs == Approx(20));  // +10 and -30
  CHECK(v.time.all.stats.mean == Approx(-10));
  CHECK(v.time.all.stats.worst.id == "b");
  CHECK(v.time.all.suspect == 1);
  CHECK(v.time.all.skipped == 1);
  CHECK(v.memory.all.stats.n == 2);
  CHECK(v.memory.all.stats.mean_abs == Approx(12.5));  // +5 and -20
  CHECK(v.memory.all.skipped == 1);
}

TEST_CASE("groups hold the rows of one family, framework, device, scale") {
  const Validation v = example();
  REQUIRE(v.time.by_source.size() == 2);
  CHECK(v.time.by_source[0].name == "paper");
  CHECK(v.time.by_source[0].stats.n == 2);
  CHECK(v.time.by_source[1].stats.n == 0);
  CHECK(v.time.by_source[1].suspect == 1);
  CHECK(v.time.by_source[1].skipped == 1);
  REQUIRE(v.memory.by_framework.size() == 2);
  CHECK(v.memory.by_framework[1].name == "nemo");
  REQUIRE(v.time.by_scale.size() == 2);
  CHECK(v.time.by_scale[0].name == "2 to 8 GPUs");
  CHECK(v.time.by_scale[1].name == "9 to 64 GPUs");
  CHECK(v.time.by_version[1].name == "megatron-lm 2022");
  CHECK(scale_of(1) == "1 GPU");
  CHECK(scale_of(512) == "65 to 512 GPUs");
  CHECK(scale_of(513) == "more than 512 GPUs");
}

TEST_CASE("skipped cases are listed by reason") {
  const Validation v = example();
  REQUIRE(v.skipped.size() == 1);
  CHECK(v.skipped[0].reason == "no ZeRO 3");
  CHECK(v.skipped[0].ids == std::vector<std::string>{"d"});
}

TEST_CASE("order is asked of families of five, within each") {
  std::vector<CaseOutcome> outcomes;
  for (int i = 0; i < 5; ++i) {
    outcomes.push_back(outcome({.id = "r" + std::to_string(i),
                                .family = "right",
                                .measured = 10.0 + i,
                                .predicted = 10.0 + i}));
    outcomes.push_back(outcome({.id = "w" + std::to_string(i),
                                .family = "wrong",
                                .measured = 10.0 + i,
                                .predicted = 20.0 - i}));
    if (i < 4) outcomes.push_back(outcome({.id = "s" + std::to_string(i), .family = "small"}));
  }
  const Validation v = validate("cases.yaml", outcomes);
  REQUIRE(v.order.size() == 2);
  CHECK(v.order[0].correlation.tau == 1);
  CHECK(v.order[1].correlation.tau == -1);
  CHECK(v.mean_tau == 0.0);
}

TEST_CASE("JSON has the keys of the contract") {
  const auto json = nlohmann::json::parse(validation_json(example()));
  const auto& summary = json.at("summary");
  CHECK(json.at("num_cases") == 5);
  CHECK(summary.at("n") == 2);
  CHECK(summary.at("mean_abs_percent").get<double>() == Approx(20));
  CHECK(summary.at("median_abs_percent").get<double>() == Approx(20));
  CHECK(summary.at("p90_abs_percent").get<double>() == Approx(28));  // 10 + 0.9 x 20
  CHECK(summary.at("worst").at("id") == "b");
  CHECK(summary.at("by_source").at("paper").at("n") == 2);
  CHECK(summary.at("by_source").at("page").at("mean_abs_percent").is_null());
  CHECK(summary.at("by_framework").at("megatron-lm").at("n") == 2);
  CHECK(summary.at("by_device").at("a100-sxm-80g").at("skipped") == 1);
  CHECK(summary.at("memory").at("n") == 2);
  const auto& cases = json.at("cases");
  REQUIRE(cases.size() == 7);
  CHECK(cases[0].at("id") == "a");
  CHECK(cases[0].at("kind") == "time");
  CHECK(cases[0].at("predicted") == 11);
  CHECK(cases[0].at("measured") == 10);
  CHECK(cases[0].at("error_percent").get<double>() == Approx(10));
  CHECK(cases[0].at("skipped").is_null());
  CHECK(cases[0].at("shares").at("matrix products") == 1);
  CHECK(cases[2].at("kind") == "memory");
  CHECK(cases[3].at("suspect") == "odd");
  CHECK(cases[3].at("scored") == false);
  CHECK(cases[4].at("skipped") == "cases.yaml:1:1: no ZeRO 3");
  CHECK(cases[4].at("predicted").is_null());
  CHECK(cases[4].at("error_percent").is_null());
}

TEST_CASE("CSV quotes what has commas, and has one line per row") {
  std::vector<CaseOutcome> outcomes = {outcome({.id = "a, \"b\""})};
  const std::string csv = validation_csv(validate("cases.yaml", outcomes));
  CHECK(
      csv.find("\n\"a, "
               "\"\"b\"\"\",time,10,10,0,yes,,,,paper,megatron-lm,2022,a100-sxm-80g,8,yes,10,0,") !=
      std::string::npos);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 2);
}

TEST_CASE("a memory figure is held against the prediction of its kind") {
  std::vector<CaseOutcome> outcomes;
  const std::array<std::optional<MemoryKind>, 4> kinds = {
      MemoryKind::kAllocated, MemoryKind::kReserved, MemoryKind::kDriver, std::nullopt};
  for (const auto& kind : kinds) {
    outcomes.push_back(outcome({.measured = 0, .memory = 10, .predicted_memory = 14}));
    outcomes.back().facts.memory_kind = kind;
    outcomes.back().prediction.reserved_gib = 12;
    outcomes.back().prediction.allocated_gib = 11;
  }
  const Validation v = validate("cases.yaml", outcomes);
  REQUIRE(v.rows.size() == 4);
  // 10 measured; where nobody says what was measured, the driver's figure.
  CHECK(v.rows[0].error_percent.value() == Approx(10));
  CHECK(v.rows[1].error_percent.value() == Approx(20));
  CHECK(v.rows[2].error_percent.value() == Approx(40));
  CHECK(v.rows[3].error_percent.value() == Approx(40));
  std::vector<std::string> groups;
  for (const ErrorGroup& group : v.memory.by_memory_kind) groups.push_back(group.name);
  CHECK(groups == std::vector<std::string>{"(not said)", "allocated", "driver", "reserved"});
  const auto data = validation_data(v);
  CHECK(data["cases"][1]["memory_kind"] == "reserved");
  CHECK(data["cases"][3]["memory_kind"].is_null());
}

TEST_CASE("a prediction comes back from its text unchanged") {
  Prediction p;
  p.features[3] = "yes";
  p.reserved_gib = 1.0 / 3;
  p.allocated_gib = 2.0 / 3;
  p.iteration_time = 0.1 + 0.2;  // no short decimal
  p.time = {1.0 / 3, 2e-300, 0, 1, 2, 3, 4, 5, 6};
  p.peak_memory_gib = 1e9 / 7;
  p.fits = false;
  p.framework = "nemo";
  p.warnings = {"one", "two \"quoted\""};
  const Prediction q = prediction_from_text(to_text(p));
  CHECK(q.iteration_time == p.iteration_time);
  CHECK(q.time == p.time);
  CHECK(q.peak_memory_gib == p.peak_memory_gib);
  CHECK(q.features == p.features);
  CHECK(q.reserved_gib == p.reserved_gib);
  CHECK(q.allocated_gib == p.allocated_gib);
  CHECK(q.fits == p.fits);
  CHECK(q.framework == p.framework);
  CHECK(q.warnings == p.warnings);
}

}  // namespace trainyard::validation_test
