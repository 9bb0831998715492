#include "tests/real/torch_ops.h"

#include "engine/base/error.h"

namespace trainyard {

namespace {

std::vector<std::int64_t> extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

at::Tensor one_result(const Op& op, const std::vector<at::Tensor>& in, const Shape& to,
                      int microbatches) {
  const OpAttrs& attrs = op.attrs;
  const std::vector<std::int64_t> dims(attrs.dims.begin(), attrs.dims.end());
  switch (op.kind) {
    case OpKind::kView:
    case OpKind::kPieces: return in[0].reshape(extents(to));
    case OpKind::kPermute: return in[0].permute(dims);
    case OpKind::kRoll: return at::roll(in[0], 1, attrs.dim);
    case OpKind::kNarrow: return in[0].narrow(attrs.dim, attrs.begin, to.begin()[attrs.dim]);
    case OpKind::kConcat: return at::cat(in, attrs.dim);
    case OpKind::kAdd: return in[0] + in[1];
    case OpKind::kMul: return in[0] * in[1];
    case OpKind::kSum: return in[0].sum(dims).reshape(extents(to));
    case OpKind::kBmm: return at::bmm(in[0], in[1]);
    case OpKind::kTanh: return at::tanh(in[0]);
    case OpKind::kGelu: return at::gelu(in[0]);
    case OpKind::kLinear: return at::linear(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor{});
    case OpKind::kMse:
      return (in[0] - in[1]).square().mean().reshape({1}) / static_cast<double>(microbatches);
    default: bug("an op that no general graph has");
  }
}

}  // namespace

void run_by_torch(const Graph& graph, const Op& op, int microbatches,
                  Indexed<TensorId, at::Tensor>& values) {
  std::vector<at::Tensor> in;
  for (const TensorId input : op.inputs) in.push_back(values[input]);
  if (op.kind != OpKind::kSplit) {
    const TensorId y = op.outputs[0];
    values[y] = one_result(op, in, graph.tensors[y].shape, microbatches);
    return;
  }
  std::int64_t begin = 0;
  for (const TensorId part : op.outputs) {
    const std::int64_t length = graph.tensors[part].shape.begin()[op.attrs.dim];
    values[part] = in[0].narrow(op.attrs.dim, begin, length);
    begin += length;
  }
}

}  // namespace trainyard
