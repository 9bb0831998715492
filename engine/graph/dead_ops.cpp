#include "engine/graph/dead_ops.h"

#include <algorithm>
#include <utility>

#include "engine/graph/model_flop.h"

namespace trainyard {

namespace {

/// [op]: whether the loss depends on one of its results.
Indexed<OpId, bool> find_live(const Graph& graph) {
  Indexed<OpId, bool> live(graph.ops.size(), false);
  Indexed<TensorId, bool> read(graph.tensors.size(), false);
  read[graph.loss] = true;
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[OpId(i)];
    live[OpId(i)] = std::any_of(op.outputs.begin(), op.outputs.end(),
                                [&](TensorId output) { return read[output]; });
    if (!live[OpId(i)]) continue;
    for (const TensorId input : op.inputs) read[input] = true;
  }
  return live;
}

/// [tensor]: whether an op that stays touches it, or none did before.
Indexed<TensorId, bool> find_kept(const Graph& graph, const Indexed<OpId, bool>& live) {
  Indexed<TensorId, bool> kept(graph.tensors.size(), true);
  for (const bool stays : {false, true}) {
    for (const OpId id : graph.ops.keys()) {
      if (live[id] != stays) continue;
      for (const TensorId input : graph.ops[id].inputs) kept[input] = stays;
      for (const TensorId output : graph.ops[id].outputs) kept[output] = stays;
    }
  }
  return kept;
}

}  // namespace

std::vector<std::string> drop_dead_ops(Graph& graph) {
  const Indexed<OpId, bool> live = find_live(graph);
  std::vector<std::string> dead;
  for (const OpId id : graph.ops.keys()) {
    if (!live[id]) dead.push_back(graph.tensors[graph.ops[id].outputs.front()].name);
  }
  if (dead.empty()) return dead;
  const Indexed<TensorId, bool> kept = find_kept(graph, live);

  Indexed<OpId, OpId> op_now(graph.ops.size());
  Indexed<OpId, Op> ops;
  for (const OpId id : graph.ops.keys()) {
    if (live[id]) op_now[id] = ops.add(std::move(graph.ops[id]));
  }
  Indexed<ParameterId, ParameterId> parameter_now(graph.parameters.size());
  Indexed<ParameterId, Parameter> parameters;
  for (const ParameterId id : graph.parameters.keys()) {
    const TensorId tensor = graph.parameters[id].tensor;
    if (tensor == kNoIndex || kept[tensor])
      parameter_now[id] = parameters.add(std::move(graph.parameters[id]));
  }
  Indexed<TensorId, TensorId> tensor_now(graph.tensors.size());
  Indexed<TensorId, Tensor> tensors;
  for (const TensorId id : graph.tensors.keys()) {
    Tensor& tensor = graph.tensors[id];
    if (!kept[id]) {
      if (tensor.constant) graph.constants.erase(tensor.name);
      continue;
    }
    if (tensor.producer != kNoIndex) tensor.producer = op_now[tensor.producer];
    if (tensor.parameter != kNoIndex) tensor.parameter = parameter_now[tensor.parameter];
    tensor_now[id] = tensors.add(std::move(tensor));
  }
  const auto renumber = [&](TensorId& id) {
    if (id != kNoIndex) id = tensor_now[id];
  };
  for (Tensor& tensor : tensors) renumber(tensor.alias);
  for (Parameter& parameter : parameters) renumber(parameter.tensor);
  for (Op& op : ops) {
    for (TensorId& input : op.inputs) renumber(input);
    for (TensorId& output : op.outputs) renumber(output);
  }
  renumber(graph.loss);
  graph.ops = std::move(ops);
  graph.parameters = std::move(parameters);
  graph.tensors = std::move(tensors);
  graph.model_flop_per_microbatch = model_flop(graph);
  return dead;
}

}  // namespace trainyard
