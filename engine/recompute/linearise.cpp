#include "engine/recompute/linearise.h"

#include <algorithm>

namespace trainyard {

namespace {

bool reads_common(const LinkedNode& node, const std::vector<bool>& common) {
  return !node.reads.empty() && std::all_of(node.reads.begin(), node.reads.end(),
                                            [&](std::size_t read) { return common[read]; });
}

}  // namespace

LinearGraph linearise(const std::vector<LinkedNode>& nodes) {
  std::vector<std::size_t> readers(nodes.size());
  std::vector<bool> stays(nodes.size());  // a reader works in place, or communicates
  for (const LinkedNode& node : nodes) {
    if (node.output) continue;
    for (const std::size_t read : node.reads) {
      ++readers[read];
      if (node.in_place || node.communication) stays[read] = true;
    }
  }
  LinearGraph out;
  std::vector<bool> common(nodes.size());
  std::vector<std::size_t> group;
  std::size_t waiting = 0;  // reads of values made so far that are still to come
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const LinkedNode& node = nodes[n];
    if (node.input || node.output) {
      common[n] = node.common;
      if (common[n]) out.common.push_back(n);
      continue;
    }
    for (const std::size_t read : node.reads) {
      if (!nodes[read].input && !common[read]) --waiting;
    }
    group.push_back(n);
    if (waiting == 0 && !stays[n]) {
      out.groups.push_back(std::move(group));
      group.clear();
    }
    common[n] = node.common || reads_common(node, common);
    if (common[n]) {
      out.common.push_back(n);
    } else {
      waiting += readers[n];
    }
  }
  if (!group.empty()) out.groups.push_back(std::move(group));
  return out;
}

std::vector<LinkedNode> linked_nodes(const Graph& graph) {
  std::vector<LinkedNode> nodes;
  for (const Op& op : graph.ops) {
    LinkedNode& node = nodes.emplace_back();
    if (!op.outputs.empty()) node.name = graph.tensors[op.outputs[0]].name;
    node.in_place = op.kind == OpKind::kRelu;
    node.communication = is_communication(op.kind);
    bool gradient = false, values = false;
    for (const TensorId output : op.outputs) {
      node.output = node.output || output == graph.loss;
      gradient = gradient || graph.tensors[output].needs_gradient;
    }
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensors[input];
      values = values || tensor.role != TensorRole::kParameter;
      if (tensor.producer == kNoIndex) continue;
      const std::size_t number = tensor.producer.number();
      if (std::find(node.reads.begin(), node.reads.end(), number) == node.reads.end())
        node.reads.push_back(number);
    }
    node.common = !gradient || !values;
  }
  return nodes;
}

}  // namespace trainyard
