// MAP's redistribution against vectors of Colossal-AI's own code (tests/golden, with their source).
#include "engine/sharding/map_greedy.h"

#include <catch2/catch.hpp>

#include "engine/sharding/spec_text.h"
#include "tests/support/golden.h"
#include "tests/support/random_spec.h"

namespace trainyard::map_greedy_test {

namespace {

TensorSpec spec_of(const std::string& text, const DeviceMesh& mesh) {
  const auto parsed = parse_numbered_spec(text, mesh);
  REQUIRE(std::holds_alternative<TensorSpec>(parsed));
  return std::get<TensorSpec>(parsed);
}

MoveCosts colossal_costs(const DeviceMesh& mesh) {
  return {MoveCostModel::kColossal, Numbered<AxisLink>(mesh.axes.size(), AxisLink{1, 1}), 1, true};
}

std::string path_text(const Redistribution& path) {
  std::string text = to_numbered_text(path.from);
  for (const RedistributionStep& step : path.steps) text += "|" + to_numbered_text(step.after);
  return text;
}

}  // namespace

TEST_CASE("differences of dims are Colossal-AI's table") {
  const DeviceMesh mesh = mesh_of({4, 4});
  const auto golden = golden_json("colossalai_one_step.json")["dim_diff"];
  REQUIRE(golden.size() == 16);
  for (const auto& [pair, difference] : golden.items()) {
    const std::size_t arrow = pair.find("->");
    const auto list = [&](const std::string& text) {
      return spec_of(text, mesh).dims[0].parts[0].axes;
    };
    CAPTURE(pair);
    CHECK(dim_difference(list(pair.substr(0, arrow)), list(pair.substr(arrow + 2))) == difference);
  }
}

TEST_CASE("steps from a spec are Colossal-AI's, in its order, with its costs") {
  const DeviceMesh mesh = mesh_of({4, 4});
  const Extents extents = {64, 32, 16};
  const MoveCosts costs = colossal_costs(mesh);
  const auto golden = golden_json("colossalai_one_step.json")["one_step"];
  REQUIRE(golden.size() == 16);
  for (const auto& [text, lists] : golden.items()) {
    const TensorSpec spec = spec_of(text, mesh);
    nlohmann::json found = {{"all_gather", nlohmann::json::array()},
                            {"all_to_all", nlohmann::json::array()},
                            {"shard", nlohmann::json::array()}};
    for (const RedistributionStep& step : colossal_steps(spec, mesh)) {
      const MoveKind kind = forward_kind(step.move);
      const MoveCost cost = move_cost(step.move, spec, step.after, extents, mesh, costs);
      const std::string name = kind == MoveKind::kSlice ? "shard" : std::string(to_string(kind));
      found[name].push_back({to_numbered_text(step.after), cost.forward, cost.backward});
    }
    CAPTURE(text);
    for (const auto& [name, steps] : lists.items()) {
      REQUIRE(found[name].size() == steps.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        CHECK(found[name][i][0] == steps[i][0]);
        CHECK(found[name][i][1].get<double>() == Approx(steps[i][1].get<double>()).epsilon(1e-12));
        CHECK(found[name][i][2].get<double>() == Approx(steps[i][2].get<double>()).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("greedy and shortest paths are Colossal-AI's") {
  const DeviceMesh mesh = mesh_of({4, 4});
  const Extents extents = {64, 32};
  const MoveCosts costs = colossal_costs(mesh);
  std::ifstream file = golden_file("colossalai_reshard_paths_mesh4x4_64x32.tsv");
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string from, to, expected;
    int steps = 0;
    double greedy_cost = 0, least = 0;
    cells >> from >> to >> expected >> steps >> greedy_cost >> least;
    CAPTURE(line);
    const auto greedy = greedy_redistribution(spec_of(from, mesh), spec_of(to, mesh), mesh);
    REQUIRE(std::holds_alternative<Redistribution>(greedy));
    const auto& path = std::get<Redistribution>(greedy);
    CHECK(path_text(path) == expected);
    CHECK(static_cast<int>(path.steps.size()) == steps);
    CHECK(path_cost(path, extents, mesh, costs).total() == Approx(greedy_cost).epsilon(1e-12));
    const auto best = redistribute(spec_of(from, mesh), spec_of(to, mesh), extents, mesh, costs);
    REQUIRE(std::holds_alternative<Redistribution>(best));
    CHECK(path_cost(std::get<Redistribution>(best), extents, mesh, costs).total() ==
          Approx(least).epsilon(1e-12));
    ++rows;
  }
  CHECK(rows == 81);
}

TEST_CASE("the greedy search says what it does not know") {
  const auto reason = [](const std::string& from, const std::string& to, const DeviceMesh& mesh) {
    const auto path = greedy_redistribution(spec_of(from, mesh), spec_of(to, mesh), mesh);
    const auto* infeasible = std::get_if<Infeasible>(&path);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason("S0,R", "R,S0", mesh_of({2, 2, 2})) ==
        "MAP's greedy search knows meshes of two axes");
  CHECK(reason("S10,R", "R,R", mesh_of({2, 2})) ==
        "MAP's greedy search knows dims R, S0, S1 and S01, and no other state");
  CHECK(reason("S0,R P1", "R,R", mesh_of({2, 2})) ==
        "MAP's greedy search knows dims R, S0, S1 and S01, and no other state");
}

}  // namespace trainyard::map_greedy_test
