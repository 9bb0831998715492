#include "engine/graph/op_parameters.h"

namespace trainyard {

OpParameters op_parameters(const Graph& graph, const Op& op) {
  const Shape& x = graph.tensors[op.inputs[0]].shape;
  const Shape& y = graph.tensors[op.outputs[0]].shape;
  OpParameters out;
  out.dims.assign(op.attrs.dims.begin(), op.attrs.dims.end());
  out.dim = op.attrs.dim;
  switch (op.kind) {
    case OpKind::kView: out.to = Extents(y.begin(), y.end()); break;
    case OpKind::kPieces: out.extents["c"] = y.begin()[op.attrs.dim]; break;
    case OpKind::kNarrow: out.extents["left"] = y.begin()[op.attrs.dim]; break;
    case OpKind::kSplit:
      for (const TensorId part : op.outputs)
        out.sizes.push_back(graph.tensors[part].shape.begin()[op.attrs.dim]);
      break;
    case OpKind::kSum: out.keepdim = x.size() == y.size(); break;
    default: break;
  }
  return out;
}

}  // namespace trainyard
