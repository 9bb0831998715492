// `trainyard calibrate --device cpu` from end to end: a profile that simulate takes, nothing half
// written when it is interrupted, and going on from there.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/real/run/training_folder.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

std::string calibrate(const TrainingFolder& folder, const std::string& arguments) {
  return std::string(TRAINYARD_REAL) + " calibrate --device cpu --out " + folder.path("my.yaml") +
         " " + arguments;
}

}  // namespace

TEST_CASE(
    "a calibration that is interrupted goes on, and its profile is what simulate then rests on") {
  const TrainingFolder folder;
  const std::string partial = folder.path("my.yaml.partial");
  // Interrupted as soon as something is kept.
  const Answer stopped = folder.shell("sh -c '" + calibrate(folder, "--minutes 0.3") +
                                      " & until grep -q \"linear fp32\" " + partial +
                                      " 2>/dev/null; do sleep 0.1; done; kill -INT $!; wait $!'");
  CHECK(stopped.exit == 130);
  CHECK(stopped.err.find("the same command goes on from there") != std::string::npos);
  CHECK(fs::exists(partial));
  CHECK_FALSE(fs::exists(folder.path("my.yaml")));
  const auto kept = nlohmann::json::parse(read_text(partial));
  REQUIRE(kept["sets"][0]["probes"].size() >= 1);

  const Answer done = folder.shell(calibrate(folder, "--minutes 0.3 --json"));
  CAPTURE(done.err);
  REQUIRE(done.exit == 0);
  const auto answer = nlohmann::json::parse(done.out);
  CHECK(answer["points"] > 50);
  CHECK(answer["device"] == "cpu");
  CHECK_FALSE(fs::exists(partial));
  CHECK(read_text(folder.path("my.html")).find("linear fp32") != std::string::npos);

  const Answer simulated = folder.shell(
      std::string(TRAINYARD) + " simulate " + folder.path("study.yaml") +
      " --set training.precision=fp32 --set cluster.profile=" + folder.path("my.yaml") + " --json");
  CAPTURE(simulated.err);
  REQUIRE(simulated.exit == 0);
  const auto summary = nlohmann::json::parse(simulated.out);
  CHECK(summary["sources"]["measured"] > 10);
  CHECK(simulated.err.find("estimates") == std::string::npos);

  // What is there is not written over.
  const Answer again = folder.shell(calibrate(folder, "--minutes 0.3"));
  CHECK(again.exit == 2);
  CHECK(again.err.find("is there already; name another file, or remove it") != std::string::npos);
}

TEST_CASE("measurements of another machine are not mixed with this one's") {
  const TrainingFolder folder;
  write_text(
      folder.path("my.yaml.partial"),
      R"({"form": 1, "device": "cpu", "model": "another CPU", "version": "v", "architecture": "cpu", "devices": 2,
                 "memory": 1, "date": "d", "command": "c", "sets": []})");
  const Answer refused = folder.shell(calibrate(folder, "--minutes 0.3"));
  CHECK(refused.exit == 2);
  CHECK(refused.err.find("my.yaml.partial: measurements of cpu (another CPU; v), this is cpu (") !=
        std::string::npos);
  CHECK(refused.err.find("remove the file to begin again") != std::string::npos);
}

TEST_CASE("what calibrate cannot do is said before anything is measured") {
  const TrainingFolder folder;
  CHECK(folder.shell(std::string(TRAINYARD_REAL) + " calibrate --device tpu --out x.yaml").exit ==
        2);
  CHECK(folder.shell(calibrate(folder, "--minutes 0")).exit == 2);
  const Answer name = folder.shell(std::string(TRAINYARD_REAL) + " calibrate --device cpu --out " +
                                   folder.path("profile"));
  CHECK(name.exit == 2);
  CHECK(name.err.find("expected the name of a .yaml file") != std::string::npos);
}

}  // namespace trainyard
