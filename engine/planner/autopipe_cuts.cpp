#include "engine/planner/autopipe_cuts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/readable.h"
#include "engine/partition/autopipe.h"
#include "engine/partition/graph_shards.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

namespace {

constexpr std::size_t kCommonReaders = 5;  // Merak's: what more nodes read passes every cut

constexpr const char* kFront = "in front of the layers";
constexpr const char* kBehind = "behind a layer";

std::string layer_name(std::int32_t layer) { return "layer " + std::to_string(layer); }

/// Nodes are ops, but for loads of data, which go where they are read.
struct Traced {
  std::vector<TracedNode> nodes;
  std::vector<OpId> ops;  // [node]
};

Traced traced(const Graph& graph, const Indexed<OpId, OpProfile>& profile) {
  Traced out;
  bool seen_layer = false;
  Indexed<TensorId, std::optional<std::size_t>> made_by(graph.tensors.size(), std::nullopt);
  for (const OpId i : graph.ops.keys()) {
    const Op& op = graph.ops[i];
    if (op.kind == OpKind::kLoad) continue;
    TracedNode node;
    seen_layer |= op.layer >= 0;
    node.name = op.layer >= 0 ? layer_name(op.layer) : seen_layer ? kBehind : kFront;
    node.parameters = profile[i].parameters;
    node.embedding = op.kind == OpKind::kEmbedding;
    for (const TensorId input : op.inputs) {
      const auto producer = made_by[input];
      if (producer &&
          std::find(node.reads.begin(), node.reads.end(), *producer) == node.reads.end())
        node.reads.push_back(*producer);
    }
    for (const TensorId output : op.outputs) {
      made_by[output] = out.nodes.size();
      const TensorId alias = graph.tensors[output].alias;
      node.in_place |= alias != kNoIndex && !node.reads.empty() && made_by[alias] == node.reads[0];
      node.output |= output == graph.loss;
    }
    out.nodes.push_back(std::move(node));
    out.ops.push_back(i);
  }
  return out;
}

GraphShards shards_of(const Graph& graph, const std::vector<TracedNode>& nodes,
                      const PartitionConfig& partition) {
  using Shards = PartitionConfig::Shards;
  if (partition.shards == Shards::kNearest) return nearest_shards(nodes);
  if (partition.shards == Shards::kLayer) {
    std::vector<std::string> points = {kFront, kBehind}, unused;
    for (std::int32_t layer = 0; layer < graph.num_layers; ++layer)
      points.push_back(layer_name(layer));
    return layer_shards(nodes, points, unused);
  }
  const std::int64_t bound =
      partition.bound > 0 ? partition.bound : 2 * std::int64_t{graph.num_layers} + 4;
  return farthest_shards(nodes, bound, kCommonReaders);
}

}  // namespace

std::variant<CutChoice, Infeasible> autopipe_cuts(const Graph& graph,
                                                  const Indexed<OpId, OpProfile>& profile,
                                                  const PartitionConfig& partition,
                                                  int num_stages) {
  const Traced model = traced(graph, profile);
  const GraphShards shards = shards_of(graph, model.nodes, partition);
  std::vector<double> forward(shards.count, 0), backward(shards.count, 0);
  std::vector<OpId> first(shards.count, OpId(kNoIndex));
  for (std::size_t node = 0; node < model.nodes.size(); ++node) {
    const std::size_t shard = shards.shard[node];
    const OpId op = model.ops[node];
    if (first[shard] == kNoIndex) first[shard] = op;
    forward[shard] += profile[op].forward;
    backward[shard] += profile[op].backward;
  }
  if (std::ssize(forward) < num_stages) {
    return Infeasible{"autopipe: " + std::to_string(shards.count) + " subgraphs for " +
                          std::to_string(num_stages) + " stages",
                      "partition"};
  }
  const StageSizes stages = autopipe(forward, backward, num_stages, AutoPipeRule::kCode);
  CutChoice choice;
  double largest = 0;
  std::size_t next = 0;
  for (const std::size_t size : stages.sizes) {
    if (next > 0) {
      const auto cut = cut_at(graph, first[next]);
      if (!cut)
        return Infeasible{"autopipe: a subgraph begins with an op without a name", "partition"};
      choice.cuts.push_back(*cut);
    }
    double load = 0;
    for (const std::size_t end = next + size; next < end; ++next)
      load += forward[next] + backward[next];
    largest = std::max(largest, load);
  }
  choice.reason = "autopipe: " + std::to_string(shards.count) + " subgraphs, the largest of " +
                  std::to_string(num_stages) + " stages has " + duration_text(largest);
  return choice;
}

}  // namespace trainyard
