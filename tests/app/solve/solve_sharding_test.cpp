// `solve`: reshard, op-strategies and propagate, against Colossal-AI's vectors and by hand.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/solve_answers.h"

namespace trainyard::solve_sharding_test {

namespace {

using Json = nlohmann::ordered_json;

std::ifstream golden(const std::string& name) {
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/" + name);
  REQUIRE(file.good());
  return file;
}

}  // namespace

TEST_CASE("reshard answers Colossal-AI's greedy paths and the shortest ones") {
  std::ifstream file = golden("colossalai_reshard_paths_mesh4x4_64x32.tsv");
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string from, to, path;
    int steps = 0;
    double greedy_cost = 0, least = 0;
    cells >> from >> to >> path >> steps >> greedy_cost >> least;
    const std::string problem =
        "{problem: reshard, mesh: [4, 4], shape: [64, 32], alpha: 1, beta: 1, "
        "cost_model: colossal, from: \"" +
        from + "\", to: \"" + to + "\", search: ";
    CAPTURE(line);
    const Json greedy = answer(problem + "greedy}");
    std::string joined;
    for (const auto& spec : greedy["path"])
      joined += (joined.empty() ? "" : "|") + spec.get<std::string>();
    CHECK(joined == path);
    CHECK(greedy["moves"].size() == static_cast<std::size_t>(steps));
    CHECK(greedy["cost"].get<double>() == Approx(greedy_cost).epsilon(1e-12));
    CHECK(answer(problem + "optimal}")["cost"].get<double>() == Approx(least).epsilon(1e-12));
    ++rows;
  }
  CHECK(rows == 81);
}

TEST_CASE("reshard counts bytes that really move") {
  // 64 x 32 elements of 2 bytes over 4 ranks: each keeps a quarter of its 1,024 bytes and receives
  // the rest, forward and backward; alpha 3 each.
  const Json a = answer(
      "{problem: reshard, mesh: {tp: 4}, shape: [64, 32], element_bytes: 2, alpha: 3, beta: 2, "
      "from: "
      "\"[tp, R]\", to: \"[R, tp]\"}");
  CHECK(a["path"] == Json::parse(R"(["[tp, R]", "[R, tp]"])"));
  CHECK(a["moves"] ==
        Json::parse(R"([["all_to_all dim 0 to 1 over tp, backward all_to_all", 1539.0, 1539.0]])"));
  CHECK(a["bytes_forward"] == 768.0);
  CHECK(a["cost"] == 3078.0);
  // Megatron's f and g.
  CHECK(
      answer(
          "{problem: reshard, mesh: [2], shape: [8], from: \"R\", to: \"R E0\"}")["moves"][0][0] ==
      "nothing over 0, backward all_reduce");
}

TEST_CASE("op-strategies answers names and what each communicates") {
  const std::string linear =
      "{problem: op-strategies, op: linear, shapes: [[4, 4, 4, 16], [32, 16]], mesh: [2, 2]";
  CHECK(answer(linear + ", rules: colossal}")["count"] == 24);
  CHECK(answer(linear + ", rules: colossal, shard_option: shard-last-axis}")["names"] ==
        Json::parse(R"(["RR = RS1 x S1R", "RS1 = RR x RS1"])"));
  const Json one =
      answer("{problem: op-strategies, op: linear, shapes: [[4, 16], [32, 16]], mesh: {tp: 2}}");
  // Rows, i or o, whole, entered and passed.
  CHECK(one["names"] == Json::parse(R"x(["whole", "d0:tp", "i:tp", "o:tp", "E(tp)", "P(tp)"])x"));
  CHECK(
      one["strategies"][2] ==
      Json::parse(
          R"x(["i:tp;", "[R, tp] x [R, tp] -> [R, R] P(tp)", "; all_reduce of result 0 over tp"])x"));
  CHECK(
      one["strategies"][3] ==
      Json::parse(
          R"x(["o:tp;", "[R, R] E(tp) x [tp, R] -> [R, tp]", "; all_reduce of the gradient of operand 0 over tp"])x"));
  CHECK(answer("{problem: op-strategies, op: bmm, shapes: [[4, 8, 16], [4, 16, 8]], mesh: [1, 4], "
               "rules: "
               "colossal}")["names"] == Json::parse(R"(["Sb0 = Sb0 x Sb0"])"));
}

TEST_CASE("propagate answers the output's spec, or that the input is gathered first") {
  const auto output = [](const std::string& rest) {
    const Json a =
        answer("{problem: propagate, mesh: [2, 2], shape: [8, 16, 64, 64], " + rest + "}");
    return a.contains("output") ? a["output"].get<std::string>() : a.dump();
  };
  CHECK(output("op: permute, dims: [0, 2, 1, 3], input: \"R,S0,R,S1\"") == "R,R,S0,S1");
  CHECK(output("op: view, to: [32, 4, 64, 16, 4], input: \"S0,R,R,S1\"") == "S0,R,R,S1,R");
  CHECK(output("op: view, to: [32, 4, 64, 16, 4], input: \"R,S0,R,R\", rules: colossal") ==
        R"({"fully_replicated":true})");
  CHECK(output("op: view, to: [32, 4, 64, 16, 4], input: \"R,S0,R,R\"") ==
        R"({"fully_replicated":true})");
  CHECK(output("op: split, size: 2, dim: 0, input: \"S0,R,R,S1\", rules: colossal") == "R,R,R,S1");
  CHECK(output("op: split, size: 2, dim: 1, input: \"S0,R,R,R\"") == "S0,R,R,R");
  CHECK(output("op: sum, dims: [0, 2], input: \"R,S1,R,S0\"") == "S1,S0");
  CHECK(output("op: sum, dims: [1], keepdim: true, input: \"R,R,S0,S1\"") == "R,R,S0,S1");
  // What Colossal-AI gathers, the exact rule leaves as summands; summands pass.
  CHECK(output("op: sum, dims: [1], input: \"R,S1,R,S0\"") == "R,R,S0 P1");
  CHECK(output("op: permute, dims: [3, 0, 1, 2], input: \"R,S1,R,R P0\"") == "R,R,S1,R P0");
}

TEST_CASE("what is wrong with a sharding problem is said at its place") {
  const std::string reshard = "{problem: reshard, mesh: [2, 2], shape: [8, 8], ";
  CHECK(problem_of(reshard + "from: \"S2,R\", to: \"R,R\"}") ==
        "p.yaml:1:55: from: character 2 of 'S2,R': the mesh has no axis 2");
  CHECK(problem_of(reshard + "from: \"S0\", to: \"R,R\"}") ==
        "p.yaml:1:55: from: the spec has 1 dims, the tensor 2");
  CHECK(problem_of(reshard + "from: \"S10,R\", to: \"R,R\", search: greedy}") ==
        "p.yaml:1:68: to: MAP's greedy search knows dims R, S0, S1 and S01, and no other state");
  CHECK(problem_of(reshard + "from: \"R,R\", to: \"R,R\", beta: [1]}") ==
        "p.yaml:1:79: beta: expected a number, or one for each of 2 axes, got 1");
  CHECK(problem_of("{problem: reshard, mesh: [0], shape: [8], from: R, to: R}")
            .starts_with("p.yaml:1:27: mesh[0]: expected"));
  CHECK(problem_of("{problem: reshard, mesh: {Tp: 2}, shape: [8], from: R, to: R}") ==
        "p.yaml:1:26: mesh: 'Tp' is no name of an axis: small letters, digits and _, not 'after'");
  CHECK(problem_of("{problem: reshard, mesh: [2, 2, 2, 2, 2], shape: [8], from: R, to: R}") ==
        "p.yaml:1:26: mesh: expected at most 4 axes, got 5");
  CHECK(problem_of("{problem: op-strategies, op: all_reduce, shapes: [[4]], mesh: [2]}")
            .starts_with(
                "p.yaml:1:30: op: expected an op with strategies of its own, such as linear"));
  CHECK(problem_of("{problem: op-strategies, op: linear, shapes: [[4, 8], [16, 9]], mesh: [2]}") ==
        "p.yaml:1:46: shapes: dim 1 of operand 1 has 9 elements, and its indices 8");
  CHECK(problem_of("{problem: propagate, op: roll, mesh: [2], shape: [8], input: R}") ==
        "p.yaml:1:26: op: expected permute, view, split or sum, got 'roll'");
  CHECK(problem_of("{problem: propagate, op: view, to: [3], mesh: [2], shape: [8], input: R}") ==
        "p.yaml:1:26: op: a view of 8 elements as 3");
  CHECK(problem_of("{problem: propagate, op: permute, dims: [0], mesh: [2], shape: [8], input: R "
                   "E0, rules: colossal}") ==
        "p.yaml:1:76: input: Colossal-AI knows specs of S and R alone");
}

}  // namespace trainyard::solve_sharding_test
