// cluster.device: other devices than the preset's, named or as a file that calibrate wrote.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "study/study_writer.h"
#include "tests/support/command_answer.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::cluster_device_test {

namespace {

namespace fs = std::filesystem;

const std::string kModel =
    "model: {family: llama, layers: 4, hidden: 4096, heads: 32, vocab: 32000, seq_len: 2048}\n";
const std::string kTraining = "training: {global_batch: 128, microbatch: 1, precision: bf16}\n";

/// Products at a tenth of what an H100 reaches: 2 m k n FLOP at 60 TFLOP/s.
std::string slow_products() {
  std::string text = "m,k,n,us\n";
  for (const double m : {512.0, 2048.0, 8192.0}) {
    for (const double k : {1024.0, 4096.0, 14336.0}) {
      for (const double n : {1024.0, 4096.0, 14336.0}) {
        text += std::to_string(static_cast<int>(m)) + "," + std::to_string(static_cast<int>(k)) +
                "," + std::to_string(static_cast<int>(n)) + "," +
                std::to_string(2 * m * k * n / 60e12 * 1e6) + "\n";
      }
    }
  }
  return text;
}

/// A folder with a study in a folder of its own, and a profile beside it made by --kernels.
class Yard {
 public:
  Yard() {
    fs::create_directories(folder_ / "studies");
    write_text(folder_ / "table.csv", slow_products());
    made = in("calibrate --kernels table.csv --like h100-sxm-80g --out studies/mine.yaml");
  }
  Answer in(const std::string& arguments) const {
    return answer_of("cd " + folder_.path() + " && " + TRAINYARD + " " + arguments, folder_);
  }
  void study(const std::string& cluster, const std::string& more = "") const {
    write_text(folder_ / "studies/study.yaml",
               kModel + "cluster: " + cluster + "\nparallel: {tensor: 1}\n" + kTraining + more);
  }
  nlohmann::json simulate(const std::string& arguments) const {
    const Answer answer = in("simulate " + arguments + " --json");
    CAPTURE(arguments, answer.err);
    REQUIRE(answer.exit == 0);
    return nlohmann::json::parse(answer.out);
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  Answer made;

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a table of products becomes the device of a preset's cluster") {
  const Yard yard;
  CAPTURE(yard.made.err);
  REQUIRE(yard.made.exit == 0);
  CHECK(yard.made.out.find("{preset: ..., device: studies/mine.yaml}") != std::string::npos);
  yard.study("{preset: dgx-h100, nodes: 2, device: mine.yaml}");
  const auto mine = yard.simulate("studies/study.yaml --out answer");
  const auto h100 = yard.simulate("studies/study.yaml --set cluster.device=h100-sxm-80g");
  // Products take most of this step, and some ten times as long.
  CHECK(mine["iteration_time_s"].get<double>() > 3 * h100["iteration_time_s"].get<double>());
  CHECK(mine["sources"]["measured"].get<int>() > 0);
  CHECK(mine["num_ranks"] == 16);
  // --set says a path of the working directory, the study one of its own folder.
  const auto set = yard.simulate("studies/study.yaml --set cluster.device=studies/mine.yaml");
  CHECK(set["iteration_time_s"] == mine["iteration_time_s"]);
  // The resolved study lies elsewhere and means the same, also from elsewhere.
  const auto again = yard.simulate("answer/study.resolved.yaml");
  CHECK(again["iteration_time_s"] == mine["iteration_time_s"]);
  const Answer from_root =
      yard.in("--help > /dev/null; cd / && " + std::string(TRAINYARD) + " simulate " +
              (yard / "answer/study.resolved.yaml") + " --json");
  REQUIRE(from_root.exit == 0);
  CHECK(nlohmann::json::parse(from_root.out)["iteration_time_s"] == mine["iteration_time_s"]);
}

TEST_CASE("a sweep goes through devices, files among them") {
  const Yard yard;
  yard.study("{preset: dgx-h100, nodes: 2}",
             "sweep: {cluster.device: [h100-sxm-80g, mine.yaml, a100-sxm-80g]}\n");
  const Answer answer = yard.in("sweep studies/study.yaml --json");
  CAPTURE(answer.err);
  REQUIRE(answer.exit == 0);
  const auto points = nlohmann::json::parse(answer.out)["points"];
  REQUIRE(points.size() == 3);
  const auto time = [&](std::size_t i) { return points[i]["iteration_time_s"].get<double>(); };
  CHECK(time(0) < time(2));
  CHECK(time(2) < time(1));
}

TEST_CASE("another device keeps the preset's links") {
  const std::string study = kModel + "cluster: {preset: dgx-h100, nodes: 2}\n" + kTraining;
  const Cluster own = prepare_text(study).study.cluster;
  const Study other = prepare_text(study, {"cluster.device=h200-sxm-141g"}).study;
  CHECK(other.cluster.device == "h200-sxm-141g");
  CHECK(other.cluster.name == "dgx-h100");
  CHECK(other.cluster.intra.name == own.intra.name);
  CHECK(other.cluster.inter.bandwidth == own.inter.bandwidth);
  CHECK(other.cluster.num_devices == 16);
  CHECK(resolved_study_text(other).find("device: h200-sxm-141g  # --set cluster.device=h200") !=
        std::string::npos);
}

TEST_CASE("a device that is not there is refused where it is named") {
  const std::string study = kModel + "cluster: {preset: dgx-h100, device: nobody}\n" + kTraining;
  CHECK_THROWS_WITH(
      prepare_text(study),
      Catch::Contains("study.yaml:2:37: cluster.device: no hardware profile is named 'nobody'"));
  const std::string file =
      kModel + "cluster: {preset: dgx-h100, device: nobody.yaml}\n" + kTraining;
  CHECK_THROWS_WITH(prepare_text(file), Catch::Contains("study.yaml:2:37: cluster.device: ") &&
                                            Catch::Contains("nobody.yaml"));
  // What is wrong inside a file is said there.
  const ScratchFolder folder;
  write_text(folder / "bad.yaml", "description: d\narchitecture: [\n");
  CHECK_THROWS_WITH(prepare_text(study, {"cluster.device=" + folder / "bad.yaml"}),
                    Catch::StartsWith(folder / "bad.yaml:"));
}

}  // namespace trainyard::cluster_device_test
