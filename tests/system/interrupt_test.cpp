// Ctrl-C and kill: 130 and 143, one line that says what is kept, and that is kept.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::interrupt_test {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::size_t num_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Many points of about a millisecond each.
const std::string kLongSweep =
    "model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 32000, seq_len: 1024}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 4}\nparallel: {tensor: 2, pipeline: 4}\n"
    "training: {global_batch: 512}\n"
    "sweep: {cluster.nodes: {from: 4, to: 40000, step: 4}, training.global_batch: {from: 4096, to: "
    "16384, times: 2}}\n";

const std::string kLongSimulation =
    "model: {family: gpt, layers: 96, hidden: 12288, heads: 96, vocab: 51200, seq_len: 2048}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 128}\nparallel: {tensor: 8, pipeline: 8}\n"
    "training: {global_batch: 1536}\nfidelity: step\n";

}  // namespace

TEST_CASE("a simulation ends by a signal with its number and a word, wherever it is") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kLongSimulation);
  // At the beginning, when SimGrid has begun (which takes SIGINT for itself), and later.
  for (const double cpu : {0.0, 0.4, 1.0}) {
    const int signal = cpu < 1 ? SIGINT : SIGTERM;
    CAPTURE(cpu);
    ChildProcess process(folder, {TRAINYARD, "simulate", folder / "study.yaml", "--no-fold",
                                  "--no-reuse", "--out", folder / "out"});
    REQUIRE(wait_until([&] {
      return (process.catches(signal) && process.cpu_seconds() >= cpu) || process.has_ended();
    }));
    REQUIRE_FALSE(process.has_ended());
    process.send(signal);
    CHECK(process.end() == 128 + signal);
    CHECK_THAT(process.err(), Catch::Contains("trainyard: interrupted (SIG") &&
                                  Catch::Contains("); nothing was written\n"));
    CHECK_FALSE(fs::exists(folder / "out"));
  }
}

TEST_CASE(
    "a sweep that is interrupted has the points that are finished, and says that it has no more") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kLongSweep);
  for (const bool group : {false, true}) {
    CAPTURE(group);
    const int signal = group ? SIGINT : SIGTERM;
    ChildProcess process(
        folder, {TRAINYARD, "sweep", folder / "study.yaml", "--jobs", "2", "--out", folder / "out"},
        folder / "answer");
    REQUIRE(wait_until([&] { return process.cpu_seconds() >= 1.5 || process.has_ended(); }));
    REQUIRE_FALSE(process.has_ended());
    group ? process.send_to_group(signal) : process.send(signal);
    CHECK(process.end() == 128 + signal);
    CHECK(num_lines(process.err()) == 1);
    CHECK_THAT(process.err(), Catch::Contains("interrupted (SIG") &&
                                  Catch::Contains(" points, the others with status interrupted"));
    CHECK(read_text(folder / "answer").empty());
    const Json json = Json::parse(read_text(folder / "out/sweep.json"));
    const std::size_t points = json.at("num_points"), left = json.at("incomplete");
    CHECK(left > 0);
    CHECK(left < points);
    CHECK(json.at("points").size() == points);
    CHECK(json.at("by_status").at("interrupted") == left);
    CHECK(num_lines(read_text(folder / "out/sweep.csv")) == points + 1);
    // It is the same sweep's folder: report reads it, and the same command goes over it.
    ChildProcess report(folder, {TRAINYARD, "report", folder / "out"});
    CHECK(report.end() == 0);
  }
}

TEST_CASE("a second signal ends a sweep at once") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", kLongSweep);
  ChildProcess process(
      folder, {TRAINYARD, "sweep", folder / "study.yaml", "--jobs", "2", "--out", folder / "out"});
  REQUIRE(wait_until([&] { return process.cpu_seconds() >= 0.3 || process.has_ended(); }));
  process.send(SIGINT);
  process.send(SIGTERM);
  const int exit = process.end();
  CHECK((exit == 130 || exit == 143));
  CHECK(num_lines(process.err()) == 1);
  if (!fs::exists(folder / "out")) return;
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    CHECK(entry.path().string().find(".part") == std::string::npos);
  }
}

TEST_CASE("a fit that is interrupted keeps the best values so far") {
  const ScratchFolder folder;
  ChildProcess process(folder, {TRAINYARD, "calibrate", "--fit",
                                TRAINYARD_SOURCE_DIR "/calibrate/published/runs.yaml", "--select",
                                "framework=pytorch-fsdp", "--select", "model.layers=24",
                                "--leave-one-out", "--jobs", "1", "--out", folder / "out"});
  // The shipped values are the best already; what follows the first iteration is a fit without each
  // family.
  REQUIRE(wait_until(
      [&] { return process.err().find("iteration 1") != std::string::npos || process.has_ended(); },
      300));
  REQUIRE_FALSE(process.has_ended());
  process.send(SIGINT);
  CHECK(process.end() == 130);
  CAPTURE(process.err());
  CHECK_THAT(process.err(), Catch::Contains("interrupted (SIGINT); ") &&
                                Catch::Contains("/out has the best values after "));
  const Json json = Json::parse(read_text(folder / "out/fit.json"));
  CHECK(json.at("incomplete").is_string());
  CHECK(json.at("parameters").size() == json.at("num_parameters"));
  CHECK_FALSE(fs::is_empty(folder / "out/software"));
}

TEST_CASE("a command that has nothing to finish ends by a signal and leaves nothing") {
  const ScratchFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    ChildProcess process(
        folder, {TRAINYARD, "validate", TRAINYARD_SOURCE_DIR "/calibrate/published/runs.yaml",
                 "--jobs", "1", "--out", folder / "out"});
    REQUIRE(wait_until([&] { return process.cpu_seconds() >= 0.2 || process.has_ended(); }));
    process.send_to_group(signal);
    CHECK(process.end() == 128 + signal);
    CHECK(num_lines(process.err()) == 1);
    CHECK_FALSE(fs::exists(folder / "out"));
  }
}

}  // namespace trainyard::interrupt_test
