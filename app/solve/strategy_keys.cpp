#include "app/solve/strategy_keys.h"

#include <algorithm>

#include "app/solve/problem_keys.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostNodes = 20'000;
constexpr std::size_t kMostStrategies = 256;      // of a node
constexpr std::size_t kMostNumbers = 20'000'000;  // of all edges

std::vector<double> read_list(const YamlNode& list) {
  std::vector<double> out;
  for (const YamlNode& item : list.items()) out.push_back(read_least_zero(item));
  return out;
}

StrategyNode read_node(const YamlNode& node) {
  StrategyNode out;
  const YamlNode costs = node.at("costs");
  out.cost = read_list(costs);
  if (out.cost.empty()) costs.fail("expected at least one strategy");
  if (out.cost.size() > kMostStrategies)
    costs.fail("expected at most " + std::to_string(kMostStrategies) + " strategies");
  out.memory.resize(out.cost.size());
  if (const auto memory = given(node, "memory")) {
    out.memory = read_list(*memory);
    if (out.memory.size() != out.cost.size()) {
      memory->fail("expected one for each of " + std::to_string(out.cost.size()) +
                   " strategies, got " + std::to_string(out.memory.size()));
    }
  }
  return out;
}

StrategyEdge read_edge(const WrittenStrategies& written, const YamlNode& node) {
  StrategyEdge out;
  out.from = written.names.at(node.at("from"));
  out.to = written.names.at(node.at("to"));
  if (out.from == out.to) node.at("to").fail("a node has no edge to itself");
  const std::size_t rows = written.problem.nodes[out.from].size();
  const std::size_t columns = written.problem.nodes[out.to].size();
  const YamlNode cost = node.at("cost");
  const std::vector<YamlNode> lists = cost.items();
  if (lists.size() != rows) {
    cost.fail("expected a list for each of " + std::to_string(rows) + " strategies of " +
              in_quotes(written.names.name(out.from)) + ", got " + std::to_string(lists.size()));
  }
  for (const YamlNode& list : lists) {
    const std::vector<double> row = read_list(list);
    if (row.size() != columns) {
      list.fail("expected a cost for each of " + std::to_string(columns) + " strategies of " +
                in_quotes(written.names.name(out.to)) + ", got " + std::to_string(row.size()));
    }
    out.cost.insert(out.cost.end(), row.begin(), row.end());
  }
  node.finish();
  return out;
}

}  // namespace

WrittenStrategies read_strategies(const YamlNode& problem) {
  WrittenStrategies out;
  const YamlNode nodes = problem.at("nodes");
  const std::vector<YamlNode> list = nodes.items();
  if (list.empty()) nodes.fail("expected at least one node");
  if (list.size() > kMostNodes)
    nodes.fail("expected at most " + std::to_string(kMostNodes) + " nodes");
  for (const YamlNode& node : list) {
    const auto name = given(node, "name");
    out.names.add(name ? name->as_string() : std::to_string(out.names.size()), name ? *name : node);
    out.problem.nodes.push_back(read_node(node));
  }
  std::size_t numbers = 0;
  if (const auto edges = given(problem, "edges")) {
    for (const YamlNode& edge : edges->items()) {
      out.problem.edges.push_back(read_edge(out, edge));
      numbers += out.problem.edges.back().cost.size();
      if (numbers > kMostNumbers)
        edges->fail("expected at most " + std::to_string(kMostNumbers) + " costs");
    }
  }
  if (const auto budget = given(problem, "memory_budget"))
    out.problem.budget = read_least_zero(*budget);
  return out;
}

}  // namespace trainyard
