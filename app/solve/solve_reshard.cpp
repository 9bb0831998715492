// solve: problem `reshard`.
#include <nlohmann/json.hpp>

#include "app/solve/problem_keys.h"
#include "app/solve/sharding_keys.h"
#include "app/solve/solve.h"
#include "engine/base/quantity.h"
#include "engine/sharding/map_greedy.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostSearchedAxes = 4;

double read_cost(const YamlNode& node) {
  const double value = node.as_number();
  if (!(value >= 0) || value > kLongestTime)
    node.fail("expected from 0 to " + number_text(kLongestTime) + ", got " + number_text(value));
  return value;
}

/// One number for all axes, or a list of one per axis.
std::vector<double> read_costs(const YamlNode& problem, const char* key, const DeviceMesh& mesh) {
  const auto node = given(problem, key);
  if (!node) return std::vector<double>(mesh.axes.size(), 1);
  if (!node->is_sequence()) return std::vector<double>(mesh.axes.size(), read_cost(*node));
  std::vector<double> values;
  for (const YamlNode& item : node->items()) values.push_back(read_cost(item));
  if (values.size() != mesh.axes.size()) {
    node->fail("expected a number, or one for each of " + std::to_string(mesh.axes.size()) +
               " axes, got " + std::to_string(values.size()));
  }
  return values;
}

}  // namespace

Json solve_reshard(const YamlNode& problem) {
  const DeviceMesh mesh = read_mesh(problem);
  const Extents extents = read_extents(problem.at("shape"));
  MoveCosts costs;
  const auto alpha = read_costs(problem, "alpha", mesh);
  const auto beta = read_costs(problem, "beta", mesh);
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    costs.links.push_back({alpha[axis], beta[axis]});
  if (const auto bytes = given(problem, "element_bytes"))
    costs.element_bytes = static_cast<double>(bytes->as_integer(1, 1024));
  if (says(problem, "cost_model", "colossal", "exact")) costs.model = MoveCostModel::kColossal;
  const bool greedy = says(problem, "search", "greedy", "optimal");
  const YamlNode from_node = problem.at("from");
  const YamlNode to_node = problem.at("to");
  const TensorSpec from = read_spec(from_node, extents, mesh);
  const TensorSpec to = read_spec(to_node, extents, mesh);
  if (mesh.num_axes() > kMostSearchedAxes) {
    problem.at("mesh").fail("expected at most " + std::to_string(kMostSearchedAxes) +
                            " axes, got " + std::to_string(mesh.num_axes()));
  }

  const auto found =
      greedy ? greedy_redistribution(from, to, mesh) : redistribute(from, to, extents, mesh, costs);
  if (const auto* reason = std::get_if<Infeasible>(&found)) to_node.fail(reason->reason);
  const auto& path = std::get<Redistribution>(found);
  costs.gradient = !from.maximum && !to.maximum;
  Json specs = Json::array({spec_text(from, mesh, from_node)});
  Json moves = Json::array();
  const TensorSpec* before = &path.from;
  for (const RedistributionStep& step : path.steps) {
    const MoveCost cost = move_cost(step.move, *before, step.after, extents, mesh, costs);
    specs.push_back(spec_text(step.after, mesh, from_node));
    moves.push_back({to_text(step.move, mesh), cost.forward, cost.backward});
    before = &step.after;
  }
  const MoveCost cost = path_cost(path, extents, mesh, costs);
  return {{"path", specs},
          {"moves", moves},
          {"cost", cost.total()},
          {"cost_forward", cost.forward},
          {"cost_backward", cost.backward},
          {"bytes_forward", cost.forward_bytes},
          {"bytes_backward", cost.backward_bytes}};
}

}  // namespace trainyard
