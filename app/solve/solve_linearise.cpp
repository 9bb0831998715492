// solve: problem `linearise`.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/graph_keys.h"
#include "app/solve/model_study.h"
#include "app/solve/problem_keys.h"
#include "engine/recompute/linearise.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// The nodes as written, in an order in which they can run.
std::vector<LinkedNode> read_linked_nodes(const YamlNode& problem) {
  const WrittenGraph written = read_graph(problem);
  const std::vector<std::size_t> order = order_of(written, problem);
  std::vector<std::size_t> place(order.size());
  std::vector<LinkedNode> nodes;
  for (const std::size_t task : order) {
    place[task] = nodes.size();
    LinkedNode& node = nodes.emplace_back();
    const YamlNode& from = written.nodes[task];
    node.name = written.names.name(task);
    node.input = flag_at(from, "input");
    node.output = flag_at(from, "output");
    node.common = flag_at(from, "common");
    node.in_place = flag_at(from, "in_place");
    node.communication = flag_at(from, "communication");
    from.finish();
  }
  for (const TaskValue& value : written.graph.values) {
    if (value.producer == kOutside) continue;
    for (const std::size_t reader : value.readers) {
      std::vector<std::size_t>& reads = nodes[place[reader]].reads;
      if (std::find(reads.begin(), reads.end(), place[value.producer]) == reads.end())
        reads.push_back(place[value.producer]);
    }
  }
  return nodes;
}

}  // namespace

Json solve_linearise(const YamlNode& problem) {
  const auto study = read_model_study(problem);
  const std::vector<LinkedNode> nodes =
      study ? linked_nodes(study->model) : read_linked_nodes(problem);
  const LinearGraph found = linearise(nodes);
  const auto names_of = [&](const std::vector<std::size_t>& numbers) {
    Json out = Json::array();
    for (const std::size_t number : numbers) out.push_back(nodes[number].name);
    return out;
  };
  Json groups = Json::array();
  for (const auto& group : found.groups) groups.push_back(names_of(group));
  return {{"count", groups.size()}, {"groups", groups}, {"common", names_of(found.common)}};
}

}  // namespace trainyard
