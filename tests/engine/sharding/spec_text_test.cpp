// Specs print as they are read, and what is wrong with a text is said at its column.
#include "engine/sharding/spec_text.h"

#include <catch2/catch.hpp>

#include "engine/sharding/normal_form.h"
#include "tests/support/random_spec.h"

namespace trainyard::spec_text_test {

namespace {

std::string problem(const std::string& text, const DeviceMesh& mesh) {
  const auto parsed = parse_spec(text, mesh);
  const auto* error = std::get_if<SpecTextError>(&parsed);
  return error == nullptr ? "none" : std::to_string(error->column) + ": " + error->problem;
}

std::string numbered_problem(const std::string& text) {
  const auto parsed = parse_numbered_spec(text, mesh_of({2, 2}));
  const auto* error = std::get_if<SpecTextError>(&parsed);
  return error == nullptr ? "none" : std::to_string(error->column) + ": " + error->problem;
}

DeviceMesh transformer_mesh() {
  DeviceMesh mesh;
  mesh.axes = {
      {"pp", 4, true}, {"dp", 2, false}, {"cp", 2, false}, {"tp0", 2, false}, {"tp1", 4, false}};
  mesh.names = {{"tp", {3, 4}}};
  return mesh;
}

}  // namespace

TEST_CASE("specs are written as they are read") {
  const DeviceMesh mesh = transformer_mesh();
  for (const char* text :
       {"[dp, cp, 16x128:tp0 tp1|2x128:tp0|2x128:tp0] E(tp1)", "[dp, 4096x1:cp|4096x1:cp~]",
        "[8x1:tp0|4x1:tp0 after dp, R]", "[] P(dp) E(tp0) H@3(tp1)", "[R] Pmax(tp0 tp1)",
        "[10x128:tp0~, R after dp]", "[]"}) {
    const auto parsed = parse_spec(text, mesh);
    REQUIRE(std::holds_alternative<TensorSpec>(parsed));
    CHECK(to_text(std::get<TensorSpec>(parsed), mesh) == text);
  }
  // A name stands for its list; what is replicated may be named.
  const auto named = std::get<TensorSpec>(parse_spec("[dp,tp]  P(cp)", mesh));
  CHECK(to_text(named, mesh) == "[dp, tp0 tp1] P(cp)");
  const auto all = std::get<TensorSpec>(parse_spec("[tp0, R] P(dp)", mesh));
  CHECK(to_text(all, mesh, NamedAxes::kAll) == "[tp0, R] P(dp) R(cp tp1)");
  CHECK(std::get<TensorSpec>(parse_spec("[tp0, R] P(dp) R(cp tp1)", mesh)) == all);
}

TEST_CASE("random specs are read back as they were") {
  Random random(3);
  for (int round = 0; round < 3000; ++round) {
    const DeviceMesh mesh = random_mesh(random, 3, 12);
    const Extents extents = random_extents(random, 3, 9);
    const TensorSpec spec = random_spec(random, extents, mesh);
    for (const NamedAxes named : {NamedAxes::kNeeded, NamedAxes::kAll}) {
      const std::string text = to_text(spec, mesh, named);
      CAPTURE(text);
      const auto parsed = parse_spec(text, mesh);
      REQUIRE(std::holds_alternative<TensorSpec>(parsed));
      CHECK(normal_form(std::get<TensorSpec>(parsed), extents, mesh) == spec);
    }
  }
}

TEST_CASE("what is wrong with a spec's text is said at its column") {
  const DeviceMesh mesh = transformer_mesh();
  CHECK(problem("dp, R", mesh) == "1: expected '[', got 'd'");
  CHECK(problem("[dp, R", mesh) == "7: expected ']', got the end");
  CHECK(problem("[dp, tp2]", mesh) == "6: the mesh has no axis 'tp2'");
  CHECK(problem("[dp dp]", mesh) == "5: 'dp' is named twice");
  CHECK(problem("[tp tp1]", mesh) == "5: 'tp1' is named twice");
  CHECK(problem("[dp, ]", mesh) == "6: expected axes or R, got ']'");
  CHECK(problem("[4x2:dp|tp0]", mesh) == "2: each of several parts needs its COUNTxUNIT:");
  CHECK(problem("[0x2:dp]", mesh) == "2: a part has at least one element");
  CHECK(problem("[99999999999999999999x1:dp]", mesh) == "2: expected a count of pieces, got '9'");
  CHECK(problem("[dp after ]", mesh) == "11: expected axes behind 'after', got ']'");
  CHECK(problem("[dp] Q(tp0)", mesh) == "6: expected P, Pmax, E, H@k or R, got 'Q'");
  CHECK(problem("[dp] P(tp0) E(tp0)", mesh) == "13: tp0 has two states");
  CHECK(problem("[dp] P()", mesh) == "6: a state without axes");
  CHECK(problem("[dp] H@(tp0)", mesh) == "8: expected a coordinate, got '('");
  CHECK(problem("[dp] P(tp0", mesh) == "11: expected ')', got the end");
  CHECK(problem("", mesh) == "1: expected '[', got the end");
}

TEST_CASE("what a spec cannot mean for a tensor is said") {
  const DeviceMesh mesh = transformer_mesh();
  const auto wrong = [&](const std::string& text, const Extents& extents) {
    return spec_problem(std::get<TensorSpec>(parse_spec(text, mesh)), extents, mesh)
        .value_or("none");
  };
  CHECK(wrong("[dp, R]", {4}) == "the spec has 2 dims, the tensor 1");
  CHECK(wrong("[dp, dp]", {4, 4}) == "dim 1 is cut by dp, which cuts another dim");
  CHECK(wrong("[pp]", {4}) == "dim 0 names pp, which tells stages apart");
  CHECK(wrong("[4x2:dp|2x2:R]", {8}) == "dim 0 has parts of 12 elements, and 8 in all");
  CHECK(wrong("[dp] P(dp)", {4}) == "dp splits a dim and has a state beside it");
  CHECK(wrong("[dp] H@2(tp0)", {4}) == "H@2 of tp0, which has 2 ranks");
  CHECK(wrong("[dp after dp]", {4}) == "dim 0 is cut twice by one axis");
  CHECK(wrong("[4x1:tp0|2x1:R after dp]", {6}) ==
        "dim 0 is cut behind parts that not all of its axes cut");
  CHECK(wrong("[dp] Pmax(tp0) E(tp1)", {4}) ==
        "a maximum is partial, and has no gradient to be entered for");
  CHECK(wrong("[2x1:tp1|4x2:R] P(tp1)", {10}) == "none");
}

TEST_CASE("the form with numbers says the same") {
  const DeviceMesh mesh = mesh_of({2, 2});
  const auto spec = std::get<TensorSpec>(parse_numbered_spec("S01,R, R", mesh));
  CHECK(to_text(spec, mesh) == "[a b, R, R]");
  CHECK(to_numbered_text(spec) == "S01,R,R");
  const auto partial = std::get<TensorSpec>(parse_numbered_spec("R,S1 P0", mesh));
  CHECK(to_text(partial, mesh) == "[R, b] P(a)");
  CHECK(to_numbered_text(partial) == "R,S1 P0");
  CHECK(numbered_problem("S0,S0") == "5: axis 0 is named twice");
  CHECK(numbered_problem("S2") == "2: the mesh has no axis 2");
  CHECK(numbered_problem("S,R") == "1: a state without an axis");
  CHECK(numbered_problem("S0,") == "4: expected specs such as S01,R or S0,R P1");
  CHECK(numbered_problem("") == "1: expected specs such as S01,R or S0,R P1");
  CHECK(numbered_problem("S0;R") == "3: expected ',' or a space, got ';'");
  CHECK(numbered_problem("R1") == "1: R stands without axes");
}

}  // namespace trainyard::spec_text_test
