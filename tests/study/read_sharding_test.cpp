// What a study says of tensor axes and of its own sharding: read, refused at its place, written and
// read back.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "study/sharding_names.h"
#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::read_sharding_test {

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

const std::string kTwoAxes =
    "model: gpt-tiny\n"
    "cluster: {preset: box, nodes: 2}\n"
    "parallel: {tensor: {tp0: 2, tp1: 4}}\n"
    "training: {global_batch: 32}\n";

/// What `sharding: {M: ...}` says of module pattern M.
GivenSharding given(const std::string& module) {
  const Study study = read(kTwoAxes + "sharding: {\"*.mlp.fc1\": " + module + "}\n");
  REQUIRE(study.sharding.size() == 1);
  CHECK(study.sharding[0].modules == "*.mlp.fc1");
  return study.sharding[0];
}

/// Without its place: line 5, where the block stands.
std::string error_in(const std::string& module) {
  return error_of(kTwoAxes + "sharding: {a: " + module + "}\n");
}

}  // namespace

TEST_CASE("tensor parallelism is a degree or a map of axes, whose product is the degree") {
  const ParallelConfig parallel = read(kTwoAxes).parallel;
  CHECK(parallel.tensor == 8);
  CHECK(parallel.tensor_axes == std::vector<int>{2, 4});
  CHECK(parallel.data == 2);  // 16 devices
  CHECK(read(kTwoAxes, {"parallel.tensor=4"}).parallel.tensor_axes.empty());
  CHECK(read(kSmallStudy, {"tp={tp0: 2, tp1: 1}"}).parallel.tensor_axes == std::vector<int>{2, 1});
  CHECK(read("model: gpt-tiny\ncluster: box\ntp: {tp0: 2, tp1: 2}\ntraining: {gbs: 32}\n")
            .parallel.tensor == 4);
}

TEST_CASE("axes of tensor parallelism are named in their order") {
  const auto error = [](const std::string& axes) {
    return error_of(kSmallStudy, {"parallel.tensor=" + axes});
  };
  const auto at = [](const std::string& axes) { return "study.yaml:3:20: parallel.tensor" + axes; };
  CHECK_THAT(error("{tp1: 2}"),
             Catch::Contains(at(".tp1: axis 1 of parallel.tensor is called tp0: axes are tp0, tp1, "
                                "... in their order, the last fastest")));
  CHECK_THAT(error("{tp0: 2, x: 2}"),
             Catch::Contains(at(".x: axis 2 of parallel.tensor is called tp1")));
  CHECK_THAT(error("{}"),
             Catch::Contains(at(": expected 1 to 4 axes, such as {tp0: 2, tp1: 4}, got 0")));
  CHECK_THAT(error("{tp0: 1, tp1: 1, tp2: 1, tp3: 1, tp4: 1}"), Catch::Contains(", got 5"));
  CHECK_THAT(error("{tp0: 0}"), Catch::Contains(at(".tp0: expected at least 1, got 0")));
  CHECK_THAT(error("{tp0: 1048576, tp1: 2}"), Catch::Contains(at(": more than 1048576 ranks")));
  CHECK_THAT(error("[2, 2]"),
             Catch::Contains(at(": expected an integer from 1 to 1048576, or a map from axis to an "
                                "integer from 1 to 1048576, got a list")));
  // What the degree has to divide it divides as a product.
  CHECK_THAT(error("{tp0: 3}"), Catch::Contains("3 ranks do not divide heads 8"));
}

TEST_CASE("a spec is a list per dim, or text") {
  CHECK(given("{weight: [tp0, R]}").specs == Entries{{"weight", "[tp0, R]"}});
  // tp stands for its axes.
  CHECK(given("{weight: [tp, R]}").specs == Entries{{"weight", "[tp0 tp1, R]"}});
  CHECK(given("{output: [R, R, [tp1, tp0]]}").specs == Entries{{"output", "[R, R, tp1 tp0]"}});
  CHECK(given("{output: '[ R,R,tp0 ]   P(tp1)'}").specs ==
        Entries{{"output", "[R, R, tp0] P(tp1)"}});
  // That an axis is replicated is said, and so kept.
  CHECK(given("{output: '[R, R, tp0] R(tp1)'}").specs == Entries{{"output", "[R, R, tp0] R(tp1)"}});
  CHECK(given("{input.1: '[dp, 4x8:tp0|4x8:tp0~]'}").specs ==
        Entries{{"input.1", "[dp, 4x8:tp0|4x8:tp0~]"}});
  CHECK(given("{input: [dp, 4x8:tp0|4x8:tp0~]}").specs ==
        Entries{{"input", "[dp, 4x8:tp0|4x8:tp0~]"}});
}

TEST_CASE("a strategy says how indices use axes") {
  CHECK(given("{strategy: {o: tp0, passed: tp1}}").strategy ==
        Entries{{"o", "tp0"}, {"passed", "tp1"}});
  CHECK(given("{strategy: {g: [tp1, tp0]}}").strategy == Entries{{"g", "tp1 tp0"}});
}

TEST_CASE("what is wrong in a sharding is said at its place") {
  CHECK(error_in("[1]") == "study.yaml:5:15: sharding.a: expected a map, got a list");
  CHECK(error_in("{}") ==
        "study.yaml:5:15: sharding.a: expected specs by parameter, input or output, such as "
        "{weight: [tp, R]}, or a strategy");
  CHECK(error_in("{weight: {}}") ==
        "study.yaml:5:24: sharding.a.weight: expected a list with R, an axis or a list of axes per "
        "dim, or a spec such as '[R, R, tp] R(dp)'");
  CHECK(error_in("{weight: [R, tp2]}") ==
        "study.yaml:5:28: sharding.a.weight[1]: the mesh has no axis 'tp2'; there are dp, tp0, tp1 "
        "and tp");
  CHECK(error_in("{weight: [R, []]}") ==
        "study.yaml:5:28: sharding.a.weight[1]: expected axes; R says that no axis splits the dim");
  CHECK(error_in("{weight: ['tp0, tp1']}") ==
        "study.yaml:5:25: sharding.a.weight[0]: expected one dim, got 'tp0, tp1'");
  CHECK(error_in("{weight: [tp0, [tp1, tp0]]}") ==
        "study.yaml:5:30: sharding.a.weight[1]: axis tp0 is named twice; it splits one dim of a "
        "tensor");
  CHECK(error_in("{weight: '[tp0, tp0]'}") ==
        "study.yaml:5:24: sharding.a.weight: axis tp0 is named twice; it splits one dim of a "
        "tensor");
  CHECK(error_in("{weight: '[R, tp0'}") ==
        "study.yaml:5:24: sharding.a.weight: expected ']', got the end, at its column 8");
  CHECK(error_in("{weight: [pp, R]}") ==
        "study.yaml:5:25: sharding.a.weight[0]: pp tells pipeline stages apart, which hold "
        "different layers: no spec names it");
  CHECK(error_in("{strategy: {o: R}}") ==
        "study.yaml:5:30: sharding.a.strategy.o: expected an axis or a list of axes, got 'R'");
  CHECK(error_in("{strategy: {o: tp0, i: [tp1, tp0]}}") ==
        "study.yaml:5:38: sharding.a.strategy.i: axis tp0 is named twice; an op uses it in one "
        "way");
  CHECK(error_in("{strategy: [o]}") ==
        "study.yaml:5:26: sharding.a.strategy: expected a map, got a list");
  CHECK(error_of(kTwoAxes + "sharding: {'': {weight: [R]}}\n") ==
        "study.yaml:5:12: sharding: an empty module pattern");
  CHECK(error_in("{'': [R]}") ==
        "study.yaml:5:16: sharding.a: an empty name of a parameter, input or output");
  CHECK(error_of(kTwoAxes + "sharding: [1]\n") ==
        "study.yaml:5:11: sharding: expected a map from module patterns to specs by parameter, "
        "input, input.N or output, and a strategy, got a list");
  // With one axis, how to have several.
  CHECK(error_of(kSmallStudy, {"sharding={a: {weight: [tp0]}}"}) ==
        "--set sharding={a: {weight: [tp0]}}: sharding.a.weight[0]: the mesh has no axis 'tp0'; "
        "there are dp and tp; parallel.tensor: {tp0: 2, tp1: 4} makes several");
  const std::string map =
      "parallel.tensor_method={name: map, mesh: [2], ops: {a: {result: [tp0]}}}";
  CHECK_THAT(error_of(kSmallStudy, {"parallel.tensor=2", map}),
             Catch::EndsWith("the mesh has no axis 'tp0'; there are dp and tp; tensor_method: "
                             "{name: map, mesh: [2, 4]} makes several"));
}

TEST_CASE("several mistakes in a sharding are said together") {
  CHECK(errors_of(kTwoAxes + "sharding:\n  a: {weight: [x]}\n  b: {bias: [y], output: [R]}\n")
            .size() == 2);
}

TEST_CASE("the resolved study has axes and sharding, and reads back as the same") {
  const Study study =
      read(kTwoAxes, {"sharding={\"*.mlp.fc1\": {weight: [tp0, R], output: '[R, R, tp0] R(tp1)', "
                      "strategy: {o: tp0, passed: [tp1]}}, lm_head: {input: [R, R, R]}}"});
  const std::string text = resolved_study_text(study);
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("\n  tensor: {tp0: 2, tp1: 4}  # from study.yaml:3:20\n"));
  CHECK_THAT(text, Catch::Contains("\nsharding:\n  \"*.mlp.fc1\":\n    weight: \"[tp0, R]\"  # "));
  CHECK_THAT(text, Catch::Contains("\n    output: \"[R, R, tp0] R(tp1)\"  # "));
  CHECK_THAT(text, Catch::Contains("\n    strategy: {o: [tp0], passed: [tp1]}  # "));
  CHECK_THAT(text, Catch::Contains("\n  lm_head:\n    input: \"[R, R, R]\"  # "));
  const Study again = read(text);
  CHECK(again.sharding == study.sharding);
  CHECK(again.parallel == study.parallel);
  CHECK(resolved_study_text(read(kTwoAxes)).find("sharding") == std::string::npos);
}

TEST_CASE("axes of one rank may be named, and split nothing") {
  Study study =
      read(kTwoAxes, {"tp={tp0: 1, tp1: 2}", "parallel.data=1",
                      "sharding={a: {weight: [tp, R], output: '[dp, R, tp0] R(tp1)', strategy: "
                      "{o: tp0, i: tp1}}}"});
  const auto several = without_single_ranks(study.sharding, sharding_names(study.parallel));
  CHECK(several[0].specs == Entries{{"weight", "[tp1, R]"}, {"output", "[R, R, R] R(tp1)"}});
  CHECK(several[0].strategy == Entries{{"i", "tp1"}});
}

}  // namespace trainyard::read_sharding_test
