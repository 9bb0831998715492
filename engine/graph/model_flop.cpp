#include "engine/graph/model_flop.h"

#include "engine/graph/count_work.h"

namespace trainyard {

namespace {

Flop flop_of(const Graph& graph, const Op& op) {
  const auto shape = [&](std::size_t i) -> const Shape& {
    return graph.tensors[op.inputs[i]].shape;
  };
  const auto size = [](const Shape& of) { return static_cast<double>(num_elements(of)); };
  // An element of the first shape is multiplied with so many others.
  const auto products = [&](const Shape& of, std::int64_t others) {
    return 2.0 * size(of) * static_cast<double>(others);
  };
  const Shape& y = graph.tensors[op.outputs[0]].shape;
  switch (op.kind) {
    case OpKind::kLinear: {
      // What others make of a parameter is none, and has no padding.
      const ParameterId weight = graph.tensors[op.inputs[1]].parameter;
      const Shape& rows = weight == kNoIndex ? shape(1) : graph.parameters[weight].shape;
      return products(shape(0), rows.front());
    }
    case OpKind::kBmm: return products(shape(0), shape(1).back());
    case OpKind::kAttention: {
      // Scores q k^T and context p v: each a GEMM [Sq, H] x [H, Sk] per head.
      const Shape& queries = shape(0);
      const std::int64_t keys = shape(op.attrs->packed ? 0 : 1)[1];
      const std::int64_t width = std::int64_t{op.attrs->heads} * op.attrs->head_dim;
      return 2 * 2.0 * static_cast<double>(queries[0]) * static_cast<double>(queries[1]) *
             static_cast<double>(keys) * static_cast<double>(width);
    }
    case OpKind::kConv2d: return products(y, num_elements(shape(1)) / y[1]);
    case OpKind::kConvTranspose2d:
      return products(shape(0), num_elements(shape(1)) / shape(1).front());
    case OpKind::kCausalConv1d: return products(y, shape(1).back());
    case OpKind::kChunkScan: return scan_flop(OpPart::kForward, op.attrs, shape(0));
    default: return 0;
  }
}

}  // namespace

Flop model_flop(const Graph& graph) {
  Flop flop = 0;
  for (const Op& op : graph.ops) flop += flop_of(graph, op);
  return flop;
}

}  // namespace trainyard
