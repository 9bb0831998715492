// The sweep block: how many points there are, in which order, what ranges hold, which keys go
// together, and what is wrong with a block, at its place.
#include "study/sweep.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/study/study_fixture.h"

namespace trainyard::sweep_test {

namespace {

Sweep sweep_of(const std::string& block) { return read_sweep(YamlNode::parse(block, "s.yaml")); }

/// "1 a|1 b|2 a|2 b": the values of every point, in order.
std::string points_of(const std::string& block) {
  const Sweep sweep = sweep_of(block);
  std::string text;
  for (std::int64_t point = 0; point < sweep.num_points(); ++point) {
    std::string values;
    for (const YamlNode* value : sweep.values(point))
      values += (values.empty() ? "" : " ") + value->flow_text();
    text += (point == 0 ? "" : "|") + values;
  }
  return text;
}

std::string problem_of(const std::string& block) {
  try {
    sweep_of(block);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("points are nested loops over the axes as written, the last innermost") {
  CHECK(points_of("a: [1, 2]\nb: [x, y, z]\n") == "1 x|1 y|1 z|2 x|2 y|2 z");
  CHECK(points_of("b: [x, y, z]\na: [1, 2]\n") == "x 1|x 2|y 1|y 2|z 1|z 2");
  // 2 x 3 x (2 together) = 12 points.
  const Sweep sweep = sweep_of("a: [1, 2]\nb: [x, y, z]\ntogether: [{c: [5, 6], d: [7, 8]}]\n");
  CHECK(sweep.num_points() == 12);
  REQUIRE(sweep.keys().size() == 4);
  CHECK(sweep.keys()[3]->path == "d");
}

TEST_CASE("keys that go together take their i-th values, and are an axis where they stand") {
  CHECK(points_of("together: [{a: [1, 2], b: [x, y]}]\nc: [7, 8]\n") == "1 x 7|1 x 8|2 y 7|2 y 8");
  CHECK(points_of("together:\n  - {a: [1, 2], b: [x, y]}\n  - {c: [3, 4], d: [5, 6]}\n") ==
        "1 x 3 5|1 x 4 6|2 y 3 5|2 y 4 6");
}

TEST_CASE("ranges reach from one end to the other, however their steps round") {
  CHECK(points_of("a: {from: 1, to: 64, times: 2}\n") == "1|2|4|8|16|32|64");
  CHECK(points_of("a: {from: 3, to: 50, times: 4}\n") == "3|12|48");
  CHECK(points_of("a: {from: 1, to: 10, step: 3}\n") == "1|4|7|10");
  // 0.1 three times is 0.30000000000000004 in doubles.
  CHECK(points_of("a: {from: 0, to: 0.3, step: 0.1}\n") == "0|0.1|0.2|0.3");
  CHECK(points_of("a: {from: 1, to: 1000, times: 10}\n") == "1|10|100|1000");
  CHECK(points_of("a: {from: 5, to: 5, step: 1}\n") == "5");
}

TEST_CASE("values may be lists and maps") {
  CHECK(
      points_of(
          "model: [gpt3-175b, {preset: gpt3-175b, layers: 48}]\npartition: [uniform, [3, 6]]\n") ==
      "gpt3-175b uniform|gpt3-175b [3, 6]|{preset: gpt3-175b, layers: 48} uniform|"
      "{preset: gpt3-175b, layers: 48} [3, 6]");
  CHECK(points_of("a: ['8', null, \"it's, so\"]\n") == "'8'|null|'it''s, so'");
}

TEST_CASE("what is wrong with a block is said at its place") {
  CHECK(problem_of("a: 3\n") ==
        "s.yaml:1:4: a: expected a list of values, or a range such as {from: 1, to: 8, times: 2}; "
        "a key is "
        "written whole, as parallel.tensor");
  CHECK(problem_of("a: []\n") == "s.yaml:1:4: a: expected at least one value");
  CHECK(problem_of("{}\n") ==
        "s.yaml:1:1: expected keys with their values, such as parallel.tensor: [1, 2, 4, 8]");
  CHECK(problem_of("a: {from: 1, to: 8}\n") ==
        "s.yaml:1:4: a: expected times (a factor) or step beside from and to, got neither");
  CHECK(problem_of("a: {from: 1, to: 8, times: 2, step: 1}\n") ==
        "s.yaml:1:4: a: expected times (a factor) or step beside from and to, got both");
  CHECK(problem_of("a: {from: 1, to: 8, by: 2}\n") ==
        "s.yaml:1:21: a.by: unknown key; this map takes: from, step, times, to");
  CHECK(problem_of("a: {from: 9, to: 8, step: 1}\n") ==
        "s.yaml:1:18: a.to: expected at least from, 9, got 8");
  CHECK(problem_of("a: {from: 0, to: 8, times: 2}\n") ==
        "s.yaml:1:11: a.from: expected more than 0 with times, got 0");
  CHECK(problem_of("a: {from: 1, to: 8, times: 1}\n") ==
        "s.yaml:1:28: a.times: expected more than 1, got 1");
  CHECK(problem_of("a: {from: 1, to: 8, step: 0}\n") ==
        "s.yaml:1:27: a.step: expected more than 0, got 0");
  CHECK(problem_of("together: [{a: [1, 2], b: [3]}]\n") ==
        "s.yaml:1:24: together[0].b: 1 value cannot go together with the 2 of a");
  CHECK(problem_of("a: [1]\ntogether: [{a: [2]}]\n") ==
        "s.yaml:2:13: sweep.a: is swept twice; the other is at s.yaml:1:1");
  CHECK(problem_of("a.b: [1]\na: [{b: 2}]\n") ==
        "s.yaml:2:1: sweep.a: would replace a.b, at s.yaml:1:1; write it before that key");
  CHECK(problem_of("a: [{b: 2}]\na.b: [1]\n") == "none");
  CHECK(problem_of("sweep.a: [1]\n") == "s.yaml:1:1: sweep.a: a sweep is no value of a study");
  // 1001 x 1001 = 1,002,001 points.
  CHECK(problem_of("a: {from: 0, to: 1000, step: 1}\nb: {from: 0, to: 1000, step: 1}\n") ==
        "s.yaml:1:1: 1002001 combinations; at most 1000000 are run");
}

TEST_CASE("an option takes the keys that it replaces out of the block") {
  Sweep sweep = sweep_of("a.x: [1, 2]\na.y: [3, 4]\ntogether: [{b: [5, 6], c: [7, 8]}]\n");
  CHECK(drop_replaced(sweep, "a={}") == std::vector<std::string>{"a.x", "a.y"});
  CHECK(drop_replaced(sweep, "c=1") == std::vector<std::string>{"c"});
  CHECK(drop_replaced(sweep, "b.z=1").empty());
  CHECK(sweep.num_points() == 2);
  REQUIRE(sweep.keys().size() == 1);
  CHECK(sweep.keys()[0]->path == "b");
}

TEST_CASE("a number of context parallelism is its degree, and leaves the map's other keys alone") {
  for (const std::string cp :
       {"cp", "parallel.cp", "parallel.context", "parallel.context.degree"}) {
    CAPTURE(cp);
    const std::string method = "cp.method: [ring, ulysses]\n", degrees = cp + ": [1, 2]\n";
    CHECK(problem_of(method + degrees) == "none");
    CHECK(problem_of(degrees + method) == "none");
    CHECK(problem_of(method + "parallel.context: [{degree: 2}]\n")
              .ends_with("would replace parallel.context.method, at s.yaml:1:1; write it before "
                         "that key"));
    Sweep sweep = sweep_of(method + degrees);
    const std::string swept = cp == "parallel.context.degree" ? cp : "parallel.context";
    CHECK(drop_replaced(sweep, "cp=2") == std::vector<std::string>{swept});
    CHECK(drop_replaced(sweep, "cp={degree: 2}") ==
          std::vector<std::string>{"parallel.context.method"});
    CHECK(sweep.axes.empty());
  }
  CHECK(problem_of("cp: [1, 2]\nparallel.context.degree: [1]\n") ==
        "s.yaml:2:1: sweep.parallel.context.degree: is swept twice; the other is at s.yaml:1:1");
}

TEST_CASE("a value of a point is wrong at its place in the block, an unknown key at its key") {
  const std::string head = kSmallStudy;  // four lines
  const auto error = [&](const std::string& block, std::int64_t point) {
    YamlNode study = YamlNode::parse(head + "sweep: " + block + "\n", "study.yaml");
    const Sweep sweep = read_sweep(study.at("sweep"));
    study.erase("sweep");
    YamlNode one = study.copy();
    put_point(sweep, point, one);
    try {
      read_study_node(std::move(one), {}, fixture_resolvers());
    } catch (const ConfigError& wrong) {
      return std::string(wrong.what());
    }
    return std::string("none");
  };
  CHECK(error("{parallel.tensor: [1, two]}", 1) ==
        "study.yaml:5:30: parallel.tensor: expected an integer, got 'two'");
  CHECK(error("{parallel.tensr: [1]}", 0)
            .starts_with("study.yaml:5:9: parallel.tensr: unknown key (did you mean tensor?); this "
                         "map takes: "));
  CHECK(error("{model: [{preset: gpt-tiny, layerz: 2}]}", 0)
            .starts_with("study.yaml:5:36: model.layerz: unknown key"));
}

TEST_CASE("a study with a sweep block is the study without it, with a warning") {
  const Study study = read(std::string(kSmallStudy) +
                           "sweep: {parallel.tensor: [1, 2], training.microbatch: [1, 2, 4]}\n");
  CHECK(std::count(study.warnings.begin(), study.warnings.end(),
                   "sweep: is left out: this is the study without it; `trainyard sweep` runs its 6 "
                   "combinations") == 1);
  CHECK(error_of(std::string(kSmallStudy) + "sweep: {parallel.tensor: 3}\n")
            .starts_with("study.yaml:5:26: sweep.parallel.tensor: expected a list of values"));
}

}  // namespace trainyard::sweep_test
