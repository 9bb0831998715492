// Graphs as text for tests: what each op of one layer computes from what, one line per op.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace trainyard {

inline const Tensor& tensor_of(const Graph& graph, TensorId id) { return graph.tensors[id]; }

/// "norm_1.layer_norm <- x, norm_1.weight, norm_1.bias\n...", names without the leading `prefix`.
inline std::string layer_text(const Graph& graph, std::int32_t layer, std::string_view prefix) {
  const auto short_name = [&](TensorId id) {
    const std::string& name = tensor_of(graph, id).name;
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  std::string text;
  for (const Op& op : graph.ops) {
    if (op.layer != layer) continue;
    text += short_name(op.outputs[0]) + " <-";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      text += (i == 0 ? " " : ", ") + short_name(op.inputs[i]);
    }
    text += "\n";
  }
  return text;
}

/// The tensor called `name`; fails the test's precondition loudly when there is none.
inline TensorId find_tensor(const Graph& graph, std::string_view name) {
  for (const TensorId i : graph.tensors.keys()) {
    if (graph.tensors[i].name == name) return i;
  }
  throw std::runtime_error("no tensor called " + std::string(name));
}

inline int num_readers(const Graph& graph, TensorId id) {
  int count = 0;
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) count += input == id ? 1 : 0;
  }
  return count;
}

inline int num_ops(const Graph& graph, OpKind kind) {
  int count = 0;
  for (const Op& op : graph.ops) count += op.kind == kind ? 1 : 0;
  return count;
}

}  // namespace trainyard
