#include "engine/graph/state_space_shapes.h"

#include <algorithm>

#include "engine/graph/general_shapes.h"

namespace trainyard {

namespace {

std::string misfit(const Graph& graph, const Op& op) {
  std::string text = "does not take";
  for (const TensorId input : op.inputs) text += " " + to_text(graph.tensors[input].shape);
  return text + " to " + to_text(graph.tensors[op.outputs[0]].shape);
}

}  // namespace

std::int64_t tokens_of_chunk(const OpAttrs& attrs, std::int64_t tokens) {
  return std::min<std::int64_t>(attrs.chunk, tokens);
}

std::string find_state_space_problem(const Graph& graph, const Op& op) {
  const auto shape = [&](std::size_t i) -> const Shape& {
    return graph.tensors[op.inputs[i]].shape;
  };
  const OpAttrs& attrs = op.attrs;
  const bool convolves = op.kind == OpKind::kCausalConv1d;
  if (op.inputs.size() != (convolves ? 3 : 7) || shape(0).size() != 3) return misfit(graph, op);
  const Shape x = shape(0);
  if (graph.tensors[op.outputs[0]].shape != x) return misfit(graph, op);
  if (convolves) {
    const Shape& w = shape(1);
    const bool fits = w.size() == 4 && w == Shape{x[2], 1, 1, w[3]} && shape(2) == Shape{x[2]};
    return fits ? "" : misfit(graph, op);
  }
  const std::int64_t heads = attrs.heads, read = std::int64_t{attrs.kv_heads} * attrs.states;
  const bool of_heads = std::all_of(op.inputs.begin() + 4, op.inputs.end(), [&](TensorId id) {
    return graph.tensors[id].shape == Shape{heads};
  });
  const bool fits = of_heads && x[2] == heads * attrs.head_dim &&
                    shape(1) == Shape{x[0], x[1], heads} && shape(2) == Shape{x[0], x[1], read} &&
                    shape(3) == shape(2);
  if (!fits || attrs.kv_heads < 1 || heads % attrs.kv_heads != 0) return misfit(graph, op);
  if (attrs.chunk < 1 || x[1] % tokens_of_chunk(attrs, x[1]) != 0)
    return "chunks of " + std::to_string(attrs.chunk) + " tokens do not divide " +
           std::to_string(x[1]);
  return {};
}

}  // namespace trainyard
