// `trainyard calibrate --device cpu` from end to end: a profile that simulate takes, nothing half
// written when it is interrupted or the machine is busy, and going on from there.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/real/run/training_folder.h"

namespace trainyard::calibrate_command_test {

namespace {

namespace fs = std::filesystem;

std::string calibrate(const TrainingFolder& folder, const std::string& arguments) {
  return std::string(TRAINYARD_REAL) + " calibrate --device cpu --out " + folder.path("my.yaml") +
         " " + arguments;
}

/// Figures of load in the form of /proc/stat, of which a hypervisor steals the share `stolen` of
/// every CPU, for as long as it lives. What this machine really does meanwhile is not seen.
class ScriptedLoad {
 public:
  ScriptedLoad(std::string file, double stolen)
      : file_(std::move(file)),
        stolen_(stolen),
        begin_(std::chrono::steady_clock::now()) {
    write();
    writer_ = std::thread([this] {
      while (!done_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        write();
      }
    });
  }
  ~ScriptedLoad() {
    done_ = true;
    writer_.join();
  }
  std::string option() const { return "--stat " + file_; }

 private:
  void write() const {
    const double ticks =
        100 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    std::string text;
    for (int cpu = 0; cpu < 256; ++cpu) {
      char line[120];
      std::snprintf(line, sizeof line, "cpu%d 0 0 0 %.0f 0 0 0 %.0f 0 0\n", cpu,
                    1000 + ticks * (1 - stolen_), 1000 + ticks * stolen_);
      text += line;
    }
    write_text(file_ + ".new", text);
    fs::rename(file_ + ".new", file_);
  }

  std::string file_;
  double stolen_;
  std::chrono::steady_clock::time_point begin_;
  std::atomic<bool> done_{false};
  std::thread writer_;
};

}  // namespace

TEST_CASE(
    "a calibration that is interrupted goes on, and its profile is what simulate then rests on") {
  const TrainingFolder folder;
  const ScriptedLoad quiet(folder.path("stat"), 0);
  const std::string partial = folder.path("my.yaml.partial");
  // Interrupted as soon as something is kept.
  const Answer stopped =
      folder.shell("sh -c '" + calibrate(folder, "--minutes 0.5 " + quiet.option()) +
                   " & until grep -q \"linear fp32\" " + partial +
                   " 2>/dev/null; do sleep 0.1; done; kill -INT $!; wait $!'");
  CHECK(stopped.exit == 130);
  CHECK(stopped.err.find("the same command goes on from there") != std::string::npos);
  CHECK(fs::exists(partial));
  CHECK_FALSE(fs::exists(folder.path("my.yaml")));
  const auto kept = nlohmann::json::parse(read_text(partial));
  REQUIRE(kept["sets"][0]["probes"].size() >= 1);

  const Answer done = folder.shell(calibrate(folder, "--minutes 0.5 --json " + quiet.option()));
  CAPTURE(done.err);
  REQUIRE(done.exit == 0);
  const auto answer = nlohmann::json::parse(done.out);
  CHECK(answer["points"] > 20);
  CHECK(answer["device"] == "cpu");
  CHECK(answer["load"]["kept"]["others_cpus"] == 0);
  CHECK(answer["load"]["set_aside"]["samples"] == 0);
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
  const Answer again = folder.shell(calibrate(folder, "--minutes 0.5"));
  CHECK(again.exit == 2);
  CHECK(again.err.find("is there already; name another file, or remove it") != std::string::npos);
}

TEST_CASE("on a busy machine calibrate ends in time, says the load, and goes on when it is quiet") {
  const TrainingFolder folder;
  {
    const ScriptedLoad busy(folder.path("stat"), 0.75);
    const auto begin = std::chrono::steady_clock::now();
    const Answer refused = folder.shell(calibrate(folder, "--minutes 0.2 --json " + busy.option()));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    CAPTURE(refused.err);
    CHECK(refused.exit == 3);
    CHECK(took.count() < 1.1 * 0.2 * 60 + 10);
    const auto error = nlohmann::json::parse(refused.out)["error"];
    CHECK(error["exit"] == 3);
    const std::string message = error["message"];
    CHECK_THAT(message, Catch::Contains("too few quiet samples: during ") &&
                            Catch::Contains(" CPUs taken by other processes, ") &&
                            Catch::Contains(" stolen, ") && Catch::Contains("minutes") &&
                            Catch::Contains("missing with 1 process: fp32 kernels, bf16 kernels"));
    CHECK_THAT(message, Catch::Contains("is kept in " + folder.path("my.yaml.partial")));
    CHECK(fs::exists(folder.path("my.yaml.partial")));
    CHECK_FALSE(fs::exists(folder.path("my.yaml")));
  }
  const ScriptedLoad quiet(folder.path("stat"), 0);
  const Answer done = folder.shell(calibrate(folder, "--minutes 0.5 " + quiet.option()));
  CAPTURE(done.err);
  CHECK(done.exit == 0);
  CHECK(fs::exists(folder.path("my.yaml")));
  CHECK_FALSE(fs::exists(folder.path("my.yaml.partial")));
}

TEST_CASE("measurements of another machine are not mixed with this one's") {
  const TrainingFolder folder;
  write_text(
      folder.path("my.yaml.partial"),
      R"({"form": 2, "device": "cpu", "model": "another CPU", "version": "v", "architecture": "cpu", "devices": 2,
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
  for (const std::string minutes :
       {"0", "nan", "NaN", "inf", "-inf", "-1", "1e300", "1e-300", "x", "0.1", "1441"}) {
    const Answer refused = folder.shell(calibrate(folder, "--minutes=" + minutes));
    CAPTURE(minutes, refused.err);
    CHECK(refused.exit == 2);
    CHECK(refused.err.find("minutes") != std::string::npos);
    CHECK_FALSE(fs::exists(folder.path("my.yaml.partial")));
  }
  const Answer name = folder.shell(std::string(TRAINYARD_REAL) + " calibrate --device cpu --out " +
                                   folder.path("profile"));
  CHECK(name.exit == 2);
  CHECK(name.err.find("expected the name of a .yaml file") != std::string::npos);
}

TEST_CASE("what every two processes take for a message is a file that a study names") {
  const TrainingFolder folder;
  const std::string command =
      std::string(TRAINYARD_REAL) + " calibrate --pairs --ranks 3 --out " + folder.path("p.yaml");
  const Answer measured = folder.shell(command + " --json");
  REQUIRE(measured.exit == 0);
  const auto json = nlohmann::json::parse(measured.out);
  CHECK(json["devices"] == 3);
  for (const char* pair : {"0,1", "0,2", "1,2"}) {
    // A message between processes takes a microsecond to a second, a byte of 16 MiB less than that.
    const double alpha = json["pairs"][pair][0], beta = json["pairs"][pair][1];
    CHECK(alpha > 1e-7);
    CHECK(alpha < 1);
    CHECK(beta > 1e-13);
    CHECK(beta < alpha);
  }
  const std::string file = read_text(folder.path("p.yaml"));
  CHECK_THAT(file, Catch::Contains("devices: 3") && Catch::Contains("3 processes over Gloo"));
  write_text(folder.path("mesh.yaml"), "{problem: device-mesh, pairs: p.yaml}");
  const Answer mesh = folder.shell(std::string(TRAINYARD) + " solve " + folder.path("mesh.yaml"));
  CHECK(mesh.exit == 0);
  const Answer again = folder.shell(command);
  CHECK(again.exit == 2);
  CHECK_THAT(again.err, Catch::Contains("is there already"));
  CHECK(folder.shell(command + " --minutes 1").exit == 2);
}

}  // namespace trainyard::calibrate_command_test
