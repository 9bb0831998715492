// solve: graph-shard and autopipe, Merak's subgraphs and their stages.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/solve/graph_keys.h"
#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/partition/autopipe.h"
#include "engine/partition/graph_shards.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostCounted = 1'000'000;
constexpr std::size_t kMostCells = 50'000'000;     // subgraphs x stages
constexpr std::size_t kMostSearched = 2'000;       // subgraphs x stages that rule: code looks at
constexpr std::size_t kMostCrossing = 10'000'000;  // values x cuts

/// The nodes in order, in front of them one for each value that is the model's input.
struct TracedGraph {
  std::vector<TracedNode> nodes;
  std::vector<std::size_t> task;  // [node]; kOutside: an input that is not a node
};

TracedGraph traced(const WrittenGraph& written, const std::vector<std::size_t>& order) {
  TracedGraph out;
  const auto add = [&](std::size_t task) {
    out.task.push_back(task);
    return &out.nodes.emplace_back();
  };
  std::vector<std::size_t> node_of(written.names.size());
  std::vector<std::size_t> producer;  // [value]: node
  for (const TaskValue& value : written.graph.values) {
    producer.push_back(out.nodes.size());
    if (value.producer == kOutside) add(kOutside)->input = true;
  }
  for (const std::size_t task : order) {
    node_of[task] = out.nodes.size();
    TracedNode& node = *add(task);
    node.name = written.names.name(task);
    node.parameters = written.graph.tasks[task].parameters;
    node.input = flag_at(written.nodes[task], "input");
    node.embedding = flag_at(written.nodes[task], "embedding");
    node.in_place = flag_at(written.nodes[task], "in_place");
  }
  for (std::size_t v = 0; v < producer.size(); ++v) {
    const TaskValue& value = written.graph.values[v];
    if (value.producer != kOutside) producer[v] = node_of[value.producer];
    if (value.leaves) out.nodes[producer[v]].output = true;
    for (const std::size_t reader : value.readers)
      out.nodes[node_of[reader]].reads.push_back(producer[v]);
  }
  return out;
}

std::size_t bound_of(const YamlNode& problem) {
  if (const auto bound = given(problem, "bound")) return bound->as_integer(1, kMostCounted);
  const auto layers = given(problem, "layers");
  if (!layers) problem.at("bound").fail("missing");
  return 2 * layers->as_integer(0, kMostCounted) + 4;
}

GraphShards shards_of(const YamlNode& problem, const std::vector<TracedNode>& nodes) {
  std::string method = "farthest";
  const auto of_method = given(problem, "method");
  if (of_method) method = of_method->as_string();
  if (method == "farthest") {
    std::int64_t common = 5;
    if (const auto node = given(problem, "common")) common = node->as_integer(0, kMostCounted);
    return farthest_shards(nodes, bound_of(problem), common);
  }
  if (method == "nearest") return nearest_shards(nodes);
  if (method != "layer")
    of_method->fail("expected farthest, nearest or layer, got " + in_quotes(method));
  const YamlNode list = problem.at("points");
  std::vector<std::string> points, unused;
  for (const YamlNode& point : list.items()) points.push_back(point.as_string());
  GraphShards out = layer_shards(nodes, points, unused);
  if (!unused.empty()) list.fail("no node is called, or begins with, " + in_quotes(unused.front()));
  return out;
}

/// The loads of stages with so many subgraphs each.
std::vector<double> loads_of(const std::vector<double>& weights,
                             const std::vector<std::size_t>& sizes) {
  std::vector<double> out;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    double load = 0;
    for (const std::size_t end = at + size; at < end; ++at) load += weights[at];
    out.push_back(load);
  }
  return out;
}

std::vector<double> read_weights(const YamlNode& list) {
  std::vector<double> out;
  for (const YamlNode& item : list.items()) out.push_back(read_least_zero(item));
  if (out.empty()) list.fail("expected at least one weight");
  return out;
}

}  // namespace

Json solve_graph_shard(const YamlNode& problem) {
  const WrittenGraph written = read_graph(problem);
  const TracedGraph graph = traced(written, order_of(written, problem));
  for (const YamlNode& node : written.nodes) node.finish();
  const GraphShards found = shards_of(problem, graph.nodes);
  std::size_t listed = 0;
  for (const auto& values : found.crossing) listed += values.size();
  if (listed > kMostCrossing)
    problem.at("nodes").fail("too many values pass too many cuts to list them");
  const auto name_of = [&](std::size_t node) {
    const std::size_t task = graph.task[node];
    return task == kOutside ? "input" + std::to_string(node) : written.names.name(task);
  };
  std::vector<std::vector<std::string>> subgraphs(found.count), crossing;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.task[n] != kOutside) subgraphs[found.shard[n]].push_back(name_of(n));
  }
  for (const std::vector<std::size_t>& values : found.crossing) {
    auto& names = crossing.emplace_back();
    for (const std::size_t node : values) names.push_back(name_of(node));
  }
  return {{"count", found.count}, {"subgraphs", subgraphs}, {"crossing", crossing}};
}

Json solve_autopipe(const YamlNode& problem) {
  const YamlNode of_weights = problem.at("weights");
  const std::vector<double> forward = read_weights(of_weights);
  std::vector<double> backward;
  for (const double weight : forward) backward.push_back(3 * weight);
  if (const auto node = given(problem, "backward")) {
    backward = read_weights(*node);
    if (backward.size() != forward.size()) {
      node->fail("expected as many as weights, " + std::to_string(forward.size()) + ", got " +
                 std::to_string(backward.size()));
    }
  }
  AutoPipeRule rule = AutoPipeRule::kExact;
  if (const auto node = given(problem, "rule")) {
    const std::string word = node->as_string();
    if (word != "exact" && word != "code")
      node->fail("expected exact or code, got " + in_quotes(word));
    rule = word == "code" ? AutoPipeRule::kCode : AutoPipeRule::kExact;
  }
  const YamlNode of_stages = at_either(problem, "stages", "S");
  const std::size_t stages = of_stages.as_integer(1, kMostCounted);
  if (stages > forward.size()) {
    of_stages.fail(std::to_string(forward.size()) + " subgraphs cannot make " +
                   std::to_string(stages) + " stages");
  }
  const std::size_t cells = stages * forward.size();
  if (cells > (rule == AutoPipeRule::kCode ? kMostSearched * 10 : kMostCells) ||
      stages > kMostSearched)
    of_stages.fail("too many subgraphs and stages to try");
  const StageSizes found = autopipe(forward, backward, stages, rule);
  const std::vector<double> loads = loads_of(forward, found.sizes);
  Json answer = {
      {"sizes", found.sizes}, {"loads", loads}, {"max_load", *std::ranges::max_element(loads)}};
  if (found.has_critical) {
    answer["time"] = found.time;
    answer["critical_stage"] = found.critical;
  }
  return answer;
}

}  // namespace trainyard
