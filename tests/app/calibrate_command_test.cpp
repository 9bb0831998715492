// `calibrate --kernels` and `--nccl-tests` as a script uses them: JSON on stdout, refusals with the
// place, nothing written where the input is wrong.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/command_answer.h"

namespace trainyard::calibrate_command_test {

namespace {

Answer calibrate(const ScratchFolder& folder, const std::string& arguments) {
  return answer_of("cd " + folder.path() + " && " + TRAINYARD + " calibrate " + arguments, folder);
}

const std::string kMessages =
    "#  Rank  0 Group  0 Pid 1 on host device  0\n#  Rank  1 Group  0 Pid 2 on host device  1\n"
    "# Collective test starting: all_reduce_perf\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "        1024           256     float     sum      -1    20.48    0.05    0.05      0\n"
    "    16777216       4194304     float     sum      -1   355.54   47.19   47.19      0\n";

}  // namespace

TEST_CASE("calibrate --nccl-tests answers as JSON") {
  const ScratchFolder folder;
  write_text(folder / "pair.txt", kMessages);
  const Answer answer = calibrate(folder, "--nccl-tests pair.txt --out links.yaml --json");
  CAPTURE(answer.err);
  REQUIRE(answer.exit == 0);
  const auto json = nlohmann::json::parse(answer.out);
  CHECK(json["links"] == "links.yaml");
  REQUIRE(json["tables"].size() == 1);
  CHECK(json["tables"][0]["kind"] == "all_reduce");
  CHECK(json["tables"][0]["ranks"] == 2);
  CHECK(json["tables"][0]["nodes"] == 1);
  CHECK(json["tables"][0]["sizes"] == 2);
  CHECK(json["tables"][0]["taken"] == true);
  CHECK(json["tables"][0]["mean_error_percent"].get<double>() < 1e-6);  // a line through two points
}

TEST_CASE("calibrate --kernels answers as JSON") {
  const ScratchFolder folder;
  write_text(folder / "products.csv",
             "m,k,n,part,us\n512,512,512,forward,20\n1024,1024,1024,forward,150\n"
             "1024,1024,1024,forward,154\n512,512,512,weight_grad,25\n");
  const Answer answer =
      calibrate(folder, "--kernels products.csv --like a100-sxm-80g --out mine.yaml --json");
  CAPTURE(answer.err);
  REQUIRE(answer.exit == 0);
  const auto json = nlohmann::json::parse(answer.out);
  CHECK(json["profile"] == "mine.yaml");
  CHECK(json["like"] == "a100-sxm-80g");
  CHECK(json["rows"] == 4);
  REQUIRE(json["curves"].size() == 2);
  CHECK(json["curves"][0]["form"] == "linear bf16 bf16 -> bf16");
  CHECK(json["curves"][0]["shapes"] == 2);
  CHECK(json["curves"][0]["left_out_error_percent"].is_number());
  CHECK(json["curves"][1]["shapes"] == 1);
  CHECK(json["curves"][1]["left_out_error_percent"].is_null());  // no others predict it
}

TEST_CASE("a figure that cannot be is exit 2 at its cell, as JSON too, and nothing is written") {
  const ScratchFolder folder;
  std::string wrong = kMessages;
  wrong.replace(wrong.find("    16777216"), 12, "        1e30");
  write_text(folder / "pair.txt", wrong);
  const Answer answer = calibrate(folder, "--nccl-tests pair.txt --out links.yaml --json");
  CHECK(answer.exit == 2);
  const auto error = nlohmann::json::parse(answer.out)["error"];
  CHECK(error["exit"] == 2);
  CHECK(error["where"] == "pair.txt:6:9");
  CHECK(error["message"].get<std::string>().find("from 1 B to 1 PB in column 1, got '1e30'") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "links.yaml"));

  // 2 x 8192^3 FLOP in 1 ms are 1.1 PFLOP/s, an A100's peak 0.312.
  write_text(folder / "products.csv", "m,k,n,us\n8192,8192,8192,1000\n");
  const Answer fast =
      calibrate(folder, "--kernels products.csv --like a100-sxm-80g --out mine.yaml");
  CHECK(fast.exit == 2);
  CHECK(fast.err.find("products.csv:2:16: a product at 1.1e+06 GFLOP/s: more than 5 % "
                      "faster than the peak of bf16 that --like has") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "mine.yaml"));
}

}  // namespace trainyard::calibrate_command_test
