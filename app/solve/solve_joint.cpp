// solve: problem `plan-joint`.
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"
#include "engine/planner/joint_plan.h"
#include "engine/recompute/rotor.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNodes = 5'000;
constexpr std::size_t kMostStrategies = 256;
constexpr std::int64_t kMostSlots = 10'000;
constexpr double kMostSteps = 2e9;    // of rotor, for one choice
constexpr double kMostEntries = 1e8;  // of its table
constexpr std::int64_t kMostBudgets = 50;

std::vector<double> read_each(const YamlNode& list, std::size_t strategies) {
  std::vector<double> out;
  for (const YamlNode& item : list.items()) out.push_back(read_least_zero(item));
  if (out.size() != strategies) {
    list.fail("expected one for each of " + std::to_string(strategies) + " strategies, got " +
              std::to_string(out.size()));
  }
  return out;
}

std::vector<double> each_or(const YamlNode& node, const char* key,
                            const std::vector<double>& otherwise) {
  const auto list = given(node, key);
  return list ? read_each(*list, otherwise.size()) : otherwise;
}

JointNode read_node(const YamlNode& node, const JointNode* before) {
  JointNode out;
  const YamlNode forward = node.at("forward");
  const std::size_t strategies = forward.items().size();
  if (strategies == 0) forward.fail("expected at least one strategy");
  if (strategies > kMostStrategies)
    forward.fail("expected at most " + std::to_string(kMostStrategies) + " strategies");
  out.forward = read_each(forward, strategies);
  std::vector<double> twice = out.forward;
  for (double& time : twice) time *= 2;
  const std::vector<double> none(strategies);
  out.backward = each_or(node, "backward", twice);
  out.held = each_or(node, "held", none);
  out.saved = read_each(node.at("saved"), strategies);
  out.output = each_or(node, "output", out.saved);
  out.forward_extra = each_or(node, "ftmp", none);
  out.backward_extra = each_or(node, "btmp", none);
  for (std::size_t k = 0; k < strategies; ++k) {
    if (out.saved[k] < out.output[k])
      node.at("saved").items()[k].fail("what is saved has the output in it, of " +
                                       number_text(out.output[k]) + ", got " +
                                       number_text(out.saved[k]));
  }
  const std::int64_t next = before == nullptr ? 0 : static_cast<std::int64_t>(before->group) + 1;
  if (const auto group = given(node, "group")) {
    const std::int64_t number = group->as_integer(0, kMostNodes);
    if (number != next && (before == nullptr || number != next - 1)) {
      group->fail("groups are numbered in order from 0; expected " +
                  (before == nullptr ? "" : std::to_string(next - 1) + " or ") +
                  std::to_string(next) + ", got " + std::to_string(number));
    }
    out.group = number;
  } else {
    out.group = next;
  }
  return out;
}

std::vector<double> read_rows(const YamlNode& node, std::size_t rows, std::size_t columns) {
  const std::vector<YamlNode> lists = node.items();
  if (lists.size() != rows) {
    node.fail("expected a list for each of " + std::to_string(rows) + " strategies, got " +
              std::to_string(lists.size()));
  }
  std::vector<double> out;
  for (const YamlNode& list : lists) {
    const std::vector<double> row = read_each(list, columns);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

JointEdge read_edge(const NamedNodes& names, const JointProblem& problem, const YamlNode& node) {
  JointEdge out;
  out.from = names.at(node.at("from"));
  out.to = names.at(node.at("to"));
  if (out.from >= out.to) node.at("to").fail("an edge leads to a node behind it");
  const std::size_t rows = problem.nodes[out.from].forward.size();
  const std::size_t columns = problem.nodes[out.to].forward.size();
  out.forward = read_rows(node.at("forward"), rows, columns);
  const auto backward = given(node, "backward");
  out.backward = backward ? read_rows(*backward, rows, columns) : out.forward;
  node.finish();
  return out;
}

JointProblem read_joint(const YamlNode& problem) {
  JointProblem out;
  NamedNodes names;
  const YamlNode nodes = problem.at("nodes");
  for (const YamlNode& node : nodes.items()) {
    if (names.size() == kMostNodes)
      nodes.fail("expected at most " + std::to_string(kMostNodes) + " nodes");
    const auto name = given(node, "name");
    names.add(name ? name->as_string() : std::to_string(names.size()), name ? *name : node);
    out.nodes.push_back(read_node(node, out.nodes.empty() ? nullptr : &out.nodes.back()));
    node.finish();
  }
  if (out.nodes.empty()) nodes.fail("expected at least one node");
  if (const auto edges = given(problem, "edges")) {
    for (const YamlNode& edge : edges->items()) out.edges.push_back(read_edge(names, out, edge));
  }
  const auto number = [&](const char* key, double otherwise) {
    const auto node = given(problem, key);
    return node ? read_least_zero(*node) : otherwise;
  };
  const YamlNode budget = problem.at("memory_budget");
  out.budget = read_least_zero(budget);
  if (out.budget == 0) budget.fail("expected more than 0, got 0");
  out.input = number("input", 0);
  out.growth = number("growth", out.growth);
  if (const auto count = given(problem, "budgets"))
    out.budgets = static_cast<int>(count->as_integer(1, kMostBudgets));
  if (const auto loss = given(problem, "loss")) {
    if (const auto time = given(*loss, "time")) out.loss_time = read_least_zero(*time);
    if (const auto extra = given(*loss, "btmp")) out.loss_extra = read_least_zero(*extra);
    loss->finish();
  }
  if (const auto slots = given(problem, "slots")) out.slots = slots->as_integer(1, kMostSlots);
  const auto groups = static_cast<int>(out.nodes.back().group) + 1;
  if (rotor_steps(groups, out.slots) > kMostSteps ||
      static_cast<double>(out.slots + 1) * (groups + 1) * (groups + 2) / 2 > kMostEntries)
    nodes.fail("too many groups and slots to try all sequences");
  return out;
}

}  // namespace

Json solve_plan_joint(const YamlNode& problem) {
  const JointProblem joint = read_joint(problem);
  const auto found = plan_jointly(joint);
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    return {{"feasible", false},
            {"strategy", nullptr},
            {"sequence", nullptr},
            {"time", nullptr},
            {"infeasible", none->reason}};
  }
  const auto& plan = std::get<JointPlan>(found);
  Json trials = Json::array();
  for (const JointTrial& trial : plan.trials) {
    const auto time = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json(nullptr);
    };
    trials.push_back({{"budget", trial.budget},
                      {"time_without_recomputation", time(trial.once)},
                      {"time", time(trial.time)}});
  }
  return {{"feasible", true},
          {"strategy", plan.choice},
          {"sequence", to_text(plan.sequence)},
          {"time", plan.time},
          {"time_without_recomputation", plan.once},
          {"held", plan.held},
          {"peak", plan.peak},
          {"bound", plan.bound},
          {"gap", plan.time > 0 ? 1 - plan.bound / plan.time : 0},
          {"optimal", plan.optimal},
          {"tried", trials}};
}

}  // namespace trainyard
