// Slips in the measured kernels of a profile, and in a study that names one.
#include "engine/config/measured_reader.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"

namespace trainyard {

namespace {

const std::string kHead =
    "- ranks: 1\n  launch: {time: 5 us, kind: measured, note: n}\n  columns: m n k batch flop "
    "bytes us interval\n  curves:\n";

std::string curve(const std::string& form, const std::string& points) {
  return kHead + "    \"" + form + "\": {kind: measured, note: n, points: [" + points + "]}\n";
}

std::string problem_of(const std::string& text) {
  try {
    read_measured_kernels(YamlNode::parse(text, "d.yaml"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a set of measured kernels reads") {
  const auto sets = read_measured_kernels(YamlNode::parse(
      curve("gelu fp32 -> fp32", "[512, 64, 0, 1, 0, 262144, 12.5, 0.02]"), "d.yaml"));
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
      YamlNode::parse(with("kind: measured, interval: 0.04, note: of the reference"), "d.yaml"));
  CHECK(sets[0]->repeatability.interval == 0.04);
  CHECK(problem_of(with("kind: measured, interval: -1, note: x")).find("expected more than 0") !=
        std::string::npos);
  CHECK(problem_of(with("kind: measured, interval: 99, note: x")).find("expected at most 10") !=
        std::string::npos);
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

}  // namespace trainyard
