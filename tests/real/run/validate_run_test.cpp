// `trainyard validate --run` on runs that were trained a moment before.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/real/run/training_folder.h"

namespace trainyard::validate_run_test {

namespace {

nlohmann::json answer(const TrainingFolder& folder, const std::string& arguments) {
  const Answer got = folder.shell(std::string(TRAINYARD) + " validate --json " + arguments);
  INFO(got.err);
  REQUIRE(got.exit == 0);
  return nlohmann::json::parse(got.out);
}

}  // namespace

TEST_CASE("a run is held against the simulation of its own program.txt") {
  const TrainingFolder folder;
  REQUIRE(
      folder
          .train("--steps 6 --ranks 2 --set parallel.pipeline=2 --set checkpoint.every=100 --out " +
                 folder.path("run"))
          .exit == 0);
  const auto json =
      answer(folder, "--run " + folder.path("run") + " --out " + folder.path("answer"));
  CHECK(json.at("num_ranks") == 2);
  CHECK(json.at("device") == "cpu");
  // Six steps, the first two warm up; the first recorded one has none before it.
  CHECK(json.at("step_time").at("num_steps") == 3);
  CHECK(json.at("step_time").at("measured_s").get<double>() > 0);
  CHECK(json.at("step_time").at("predicted_s").get<double>() > 0);
  bool sends = false, products = false;
  for (const auto& kind : json.at("op_kinds")) {
    if (kind.at("kind") == "host") continue;
    CAPTURE(kind);
    CHECK(kind.at("measured_s").get<double>() > 0);  // every instruction was measured
    sends = sends || kind.at("kind") == "send:pp";
    products = products || kind.at("kind") == "linear_dw";
  }
  CHECK(sends);
  CHECK(products);
  // A rank's classes are its step.
  for (const auto& rank : json.at("ranks")) {
    const auto& m = rank.at("measured");
    double sum = m.at("compute").get<double>() + m.at("optimizer").get<double>() +
                 m.at("host").get<double>() + m.at("bubble").get<double>();
    for (const auto& [kind, seconds] : m.at("exposed_communication").items())
      sum += seconds.get<double>();
    CHECK(sum == Approx(json.at("step_time").at("measured_s").get<double>()).epsilon(0.5));
  }
  CHECK(json.at("links").size() >= 2);  // forward and backward
  CHECK(nlohmann::json::parse(read_text(folder.path("answer") + "/summary.json")) == json);

  // A slower link makes the predicted step longer, and nothing else of the answer.
  const auto slow =
      answer(folder, "--run " + folder.path("run") + " --set 'cluster.intra.bandwidth=1 MB/s'");
  CHECK(slow.at("step_time").at("predicted_s").get<double>() >
        json.at("step_time").at("predicted_s").get<double>());
  CHECK(slow.at("step_time").at("measured_s") == json.at("step_time").at("measured_s"));
}

TEST_CASE("replicas that own parameters and copies to the host are held against their simulation") {
  const TrainingFolder folder;
  REQUIRE(
      folder
          .train(
              "--steps 6 --ranks 2 --set parallel.data=2 --set parallel.zero.stage=1 --set "
              "parallel.zero.by=parameter --set recompute=full --set schedule=gpipe --set "
              "offload.activations=true --set offload.horizon=0 --set checkpoint.every=100 --out " +
              folder.path("run"))
          .exit == 0);
  const auto json = answer(folder, "--run " + folder.path("run"));
  std::map<std::string, double> measured;
  for (const auto& kind : json.at("op_kinds")) {
    measured[kind.at("kind")] = kind.at("measured_s");
  }
  for (const char* kind : {"reduce:dp", "broadcast:dp", "adamw", "copy:d2h", "copy:h2d"}) {
    CAPTURE(kind);
    CHECK(measured[kind] > 0);
  }
}

TEST_CASE("steps that are validated in the next one are held against their simulation") {
  // The clip is exceeded in some steps, whose corrections and void followers are no part of what is
  // compared.
  const TrainingFolder folder;
  const Answer run = folder.train(
      "--json --steps 10 --ranks 2 --set parallel.pipeline=2 --set schedule.method=zb-h1 --set "
      "schedule.post_validation=true --set training.clip_norm=1 --set checkpoint.every=100 --out " +
      folder.path("run"));
  REQUIRE(run.exit == 0);
  CAPTURE(run.out);
  const auto json = answer(folder, "--run " + folder.path("run"));
  std::map<std::string, double> measured;
  for (const auto& kind : json.at("op_kinds")) {
    measured[kind.at("kind")] = kind.at("measured_s");
  }
  for (const char* kind : {"sum_squares", "within_clip"}) {
    CAPTURE(kind);
    CHECK(measured[kind] > 0);
  }
  CHECK_FALSE(
      measured.contains("all_reduce:replicas"));  // there is one: nobody to communicate with
  CHECK_FALSE(measured.contains("correct_adamw"));
}

TEST_CASE("what cannot be compared is refused with the reason") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--steps 1 --out " + folder.path("run")).exit == 0);
  const auto refusal = [&](const std::string& arguments) {
    const Answer got = folder.shell(std::string(TRAINYARD) + " validate " + arguments);
    CHECK(got.exit == 2);
    return got.err;
  };
  CHECK_THAT(
      refusal("--run " + folder.path("run") + " --set training.steps=9 --set model.hidden=64"),
      Catch::Contains("--set model.hidden=64: would make another Program than the run's"));
  CHECK_THAT(refusal("--run " + folder.path("nothing")),
             Catch::Contains("nothing: no such folder"));
  CHECK_THAT(refusal("--run " + folder.path(".")),
             Catch::Contains("holds no run of trainyard train"));
  CHECK_THAT(refusal("cases.yaml --run " + folder.path("run")), Catch::Contains("not both"));
  CHECK_THAT(refusal(""), Catch::Contains("CASES or --run is required"));
  std::filesystem::remove(folder.path("run") + "/measured.json");
  CHECK_THAT(refusal("--run " + folder.path("run")), Catch::Contains("has no measured.json"));
}

}  // namespace trainyard::validate_run_test
