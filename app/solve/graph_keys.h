// Graphs of tasks in problems of `solve`: nodes, and the values between them.
#pragma once

#include <vector>

#include "app/solve/named_nodes.h"
#include "engine/partition/task_graph.h"

namespace trainyard {

struct WrittenGraph {
  NamedNodes names;  // of tasks; their number where none is written
  TaskGraph graph;
  std::vector<YamlNode> nodes;  // as written; what nobody asked for is still to be refused
};

/// `nodes: [{name, forward, backward, memory, activation, parameters, reads: [...], bytes}]` and
/// `edges: [{from, to, bytes}]`: every edge is a value, to one reader or a list; without `from` the
/// model's input, without `to` its output. `reads` are edges from the nodes named, of the `bytes`
/// that those have.
WrittenGraph read_graph(const YamlNode& problem);

/// An order in which the tasks can run, their own where that is one. Throws ConfigError for a
/// cycle.
std::vector<std::size_t> order_of(const WrittenGraph& graph, const YamlNode& problem);

}  // namespace trainyard
