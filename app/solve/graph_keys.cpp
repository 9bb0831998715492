#include "app/solve/graph_keys.h"

#include <variant>

#include "app/solve/problem_keys.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostNodes = 200'000;
constexpr std::size_t kMostReaders = 2'000'000;  // of all values

double number_at(const YamlNode& node, const char* key, double otherwise) {
  const auto value = given(node, key);
  return value ? read_least_zero(*value) : otherwise;
}

TaskCost read_costs(const YamlNode& node) {
  TaskCost out;
  out.forward = number_at(node, "forward", 0);
  out.backward = number_at(node, "backward", 2 * out.forward);
  out.memory = number_at(node, "memory", 0);
  out.activation = number_at(node, "activation", 0);
  out.parameters = number_at(node, "parameters", 0);
  return out;
}

/// {from, to, bytes}, or [from, to, bytes].
TaskValue read_edge(const WrittenGraph& graph, const YamlNode& edge) {
  TaskValue out;
  if (edge.is_sequence()) {
    const std::vector<YamlNode> parts = edge.items();
    if (parts.size() != 2 && parts.size() != 3) edge.fail("expected [from, to, bytes]");
    out.producer = graph.names.at(parts[0]);
    out.readers.push_back(graph.names.at(parts[1]));
    if (parts.size() == 3) out.bytes = read_least_zero(parts[2]);
    return out;
  }
  if (const auto from = given(edge, "from")) out.producer = graph.names.at(*from);
  if (const auto to = given(edge, "to")) {
    if (to->is_sequence()) {
      for (const YamlNode& reader : to->items()) out.readers.push_back(graph.names.at(reader));
    } else {
      out.readers.push_back(graph.names.at(*to));
    }
  } else {
    out.leaves = true;
  }
  if (out.leaves && out.producer == kOutside) edge.fail("expected from, to, or both");
  out.bytes = number_at(edge, "bytes", 0);
  edge.finish();
  return out;
}

/// Values of nodes' `reads`, one per node that is read.
void add_reads(WrittenGraph& out) {
  std::vector<TaskValue> made(out.nodes.size());
  for (std::size_t task = 0; task < out.nodes.size(); ++task) {
    made[task].producer = task;
    made[task].bytes = number_at(out.nodes[task], "bytes", 0);
    const auto reads = given(out.nodes[task], "reads");
    if (!reads) continue;
    for (const YamlNode& name : reads->items()) made[out.names.at(name)].readers.push_back(task);
  }
  for (TaskValue& value : made) {
    if (!value.readers.empty()) out.graph.values.push_back(std::move(value));
  }
}

}  // namespace

WrittenGraph read_graph(const YamlNode& problem) {
  WrittenGraph out;
  const YamlNode nodes = problem.at("nodes");
  out.nodes = nodes.items();
  if (out.nodes.size() > kMostNodes)
    nodes.fail("expected at most " + std::to_string(kMostNodes) + " nodes");
  for (std::size_t task = 0; task < out.nodes.size(); ++task) {
    const auto name = given(out.nodes[task], "name");
    out.names.add(name ? name->as_string() : std::to_string(task), name ? *name : out.nodes[task]);
    out.graph.tasks.push_back(read_costs(out.nodes[task]));
  }
  add_reads(out);
  if (const auto edges = given(problem, "edges")) {
    for (const YamlNode& edge : edges->items()) out.graph.values.push_back(read_edge(out, edge));
  }
  std::size_t readers = 0;
  for (const TaskValue& value : out.graph.values) readers += value.readers.size();
  if (readers > kMostReaders)
    nodes.fail("expected at most " + std::to_string(kMostReaders) + " edges");
  return out;
}

std::vector<std::size_t> order_of(const WrittenGraph& graph, const YamlNode& problem) {
  auto order = task_order(graph.graph);
  if (const auto* cycle = std::get_if<TaskCycle>(&order)) {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (std::size_t i = 0; i < cycle->tasks.size() && i < kShown; ++i)
      text += (i == 0 ? "" : " -> ") + printable(graph.names.name(cycle->tasks[i]));
    if (cycle->tasks.size() > kShown) text += " -> ...";
    problem.at("nodes").fail("nodes wait for one another: " + text + " -> " +
                             printable(graph.names.name(cycle->tasks.front())));
  }
  return std::get<std::vector<std::size_t>>(std::move(order));
}

}  // namespace trainyard
