// Slips in the measured kernels of a profile, and in a study that names one.
#include "study/measured_reader.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"

namespace trainyard::measured_reader_test {

namespace {

const std::string kHead =
    "- ranks: 1\n  launch: {time: 5 us, kind: measured, note: n}\n  columns: m n k batch flop "
    "bytes us interval\n  curves:\n";

std::string curve(const std::string& form, const std::string& points) {
  return kHead + "    \"" + form + "\": {kind: measured, note: n, points: [" + points + "]}\n";
}

/// 100 GFLOP/s of fp32, 25 GB/s.
HardwareProfile round_device() {
  HardwareProfile profile;
  profile.peak = {{DType::kFp32, 100e9}};
  profile.memory_bandwidth = 25e9;
  return profile;
}

std::string problem_of(const std::string& text) {
  try {
    read_measured_kernels(YamlNode::parse(text, "d.yaml"), round_device());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a set of measured kernels reads") {
  const auto sets = read_measured_kernels(
      YamlNode::parse(curve("gelu fp32 -> fp32", "[512, 64, 0, 1, 0, 262144, 12.5, 0.02]"),
                      "d.yaml"),
      round_device());
  REQUIRE(sets.size() == 1);
  CHECK(sets[0]->launch == Approx(5e-6));
  REQUIRE(sets[0]->forms.size() == 1);
  CHECK(to_string(sets[0]->forms.begin()->first) == "gelu fp32 -> fp32");
  KernelWork work;
  work.form = sets[0]->forms.begin()->first;
  work.m = 512, work.n = 64, work.bytes = 262144;
  REQUIRE(sets[0]->curves.at(work));
  CHECK(sets[0]->curves.at(work)->time == Approx(12.5e-6));
  CHECK(sets[0]->repeatability.interval == 0);
  CHECK(sets[0]->interval_factor == 1);  // of one point nothing can be told
}

TEST_CASE("how far a machine repeats itself is read, and refused where it means nothing") {
  std::string text = curve("gelu fp32 -> fp32", "[512, 64, 0, 1, 0, 262144, 12.5, 0.02]");
  const std::string key = "  columns:";
  REQUIRE(text.find(key) != std::string::npos);
  const auto with = [&](const std::string& line) {
    return std::string(text).insert(text.find(key), "  repeatability: {" + line + "}\n");
  };
  const auto sets = read_measured_kernels(
      YamlNode::parse(with("kind: measured, interval: 0.04, note: of the reference"), "d.yaml"),
      round_device());
  CHECK(sets[0]->repeatability.interval == 0.04);
  CHECK(problem_of(with("kind: measured, interval: -1, note: x")).find("expected more than 0") !=
        std::string::npos);
  CHECK(problem_of(with("kind: measured, interval: 99, note: x")).find("expected at most 10") !=
        std::string::npos);
}

TEST_CASE("a kernel that beats the profile's own peak or memory is refused at its line") {
  // 1000 x 1000 x 1000 are 2 GFLOP: in 19.1 ms at 104.7 GFLOP/s, in 19 ms at 105.3, 5 % above.
  const auto product = [](const std::string& us) {
    return curve("linear fp32 fp32 -> fp32",
                 "[9, 9, 9, 1, 729, 8, 9e9, 0], [1000, 1000, 1000, 1, 2e9, "
                 "12000000, " +
                     us + ", 0.01]");
  };
  CHECK(problem_of(product("19100")) == "no error");
  CHECK(
      problem_of(product("19000")) ==
      "d.yaml:5:98: [0].curves.linear fp32 fp32 -> fp32.points[1]: a kernel at 105.3 GFLOP/s, 5 % "
      "above the peak of fp32 that the profile states, 100 GFLOP/s; one of the two is wrong: "
      "measure again");
  // 8 MiB in 320 us are 26.2 GB/s, in 319 us 26.3, 5 % above.
  const auto mover = [](const std::string& bytes, const std::string& us) {
    return "[512, 64, 0, 1, 0, " + bytes + ", " + us + ", 0]";
  };
  const auto gelu = [](const std::string& points) { return curve("gelu fp32 -> fp32", points); };
  CHECK(problem_of(gelu(mover("8388608", "320"))) == "no error");
  CHECK(
      problem_of(gelu(mover("8388608", "319")))
          .find(
              "points[0]: a kernel that moves 26.3 GB/s, 5 % above the bandwidth that the profile "
              "states, 25 GB/s") != std::string::npos);
  // What fits into caches is faster than memory, and no contradiction where larger ones are not.
  CHECK(problem_of(gelu(mover("1048576", "10") + ", " + mover("8388608", "400"))) == "no error");
  CHECK(problem_of(gelu(mover("1048576", "10"))).find("moves 104.9 GB/s") != std::string::npos);
  // A type whose peak the profile does not say cannot be held against it.
  CHECK(problem_of(curve("linear fp64 fp64 -> fp64", "[9, 9, 9, 1, 2e9, 8, 1, 0]")) == "no error");
}

TEST_CASE("what is wrong in a measured kernel is said at its line") {
  CHECK(problem_of(curve("gelu fp32 -> fp32", "[1, 2, 3]")) ==
        "d.yaml:5:61: [0].curves.gelu fp32 -> fp32.points[0]: expected 8 numbers: m n k batch flop "
        "bytes us interval");
  CHECK(problem_of(curve("gely fp32 -> fp32", "[1, 1, 0, 1, 0, 8, 1, 0]"))
            .find("expected a form of a kernel") != std::string::npos);
  CHECK(problem_of(curve("gelu fp32 -> fp32", "[1, 1, 0, 1, 0, 8, 0, 0]"))
            .find("points[0][6]: expected 1.0e-06 to 1.0e+12, got 0") != std::string::npos);
  CHECK(problem_of(curve("gelu fp32 -> fp32", "[1, 1, 0, 1, 0, 0, 1, 0]"))
            .find("computes or moves something") != std::string::npos);
  CHECK(problem_of(curve("gelu fp32 -> fp32", "")).find("expected at least one point") !=
        std::string::npos);
  CHECK(problem_of("[]").find("expected a list") != std::string::npos);
  const std::string good = curve("gelu fp32 -> fp32", "[1, 1, 0, 1, 0, 8, 1, 0]");
  CHECK(problem_of(good) == "no error");
  CHECK(problem_of(good + good).find("expected more than the entry before, 1") !=
        std::string::npos);
}

}  // namespace trainyard::measured_reader_test
