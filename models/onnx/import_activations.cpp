// Activations that are made of others, element by element.
#include <limits>

#include "models/onnx/importer.h"

namespace trainyard {

namespace {

constexpr double kMost = std::numeric_limits<float>::max();

}  // namespace

/// What is below 0 in `below(x)`, and x itself above it.
void OnnxImporter::bent(const OnnxNode& node) {
  const int id = in(node, 0);
  const std::string& where = module(node);
  const TensorId x = tensor(id);
  const TensorId above = graph_.activation(where, OpKind::kRelu, x);
  TensorId below = graph_.clamp(where, x, -kMost, 0);
  Dims dims = dims_of(id);
  if (node.op == "LeakyRelu") {
    below = graph_.affine(where, below, node.number("alpha", 0.01));
  } else if (node.op == "PRelu") {
    below = graph_.mul(where, below, tensor(in(node, 1)));
    dims = broadcast_dims(dims, dims_of(node.inputs[1]));
  } else {  // alpha (exp(x) - 1); Celu's exponent is x / alpha
    const bool selu = node.op == "Selu";
    const double alpha = node.number("alpha", selu ? 1.67326319217681884765625 : 1);
    if (node.op == "Celu") below = graph_.affine(where, below, 1 / alpha);
    below = graph_.affine(where, graph_.activation(where, OpKind::kExp, below), alpha, -alpha);
  }
  TensorId y = graph_.add(where, above, below);
  if (node.op == "Selu")
    y = graph_.affine(where, y, node.number("gamma", 1.05070102214813232421875));
  set(node, y, dims);
}

void OnnxImporter::hard(const OnnxNode& node) {
  const int id = in(node, 0);
  const bool swish = node.op == "HardSwish";
  const double alpha = swish ? 1.0 / 6 : node.number("alpha", 0.2);
  const double beta = swish ? 0.5 : node.number("beta", 0.5);
  const std::string& where = module(node);
  const TensorId x = tensor(id);
  const TensorId gate = graph_.clamp(where, graph_.affine(where, x, alpha, beta), 0, 1);
  set(node, swish ? graph_.mul(where, x, gate) : gate, dims_of(id));
}

/// |x|
TensorId OnnxImporter::size_of(const OnnxNode& node, TensorId x) {
  const std::string& where = module(node);
  const TensorId negative = graph_.affine(where, x, -1);
  return graph_.add(where, graph_.activation(where, OpKind::kRelu, x),
                    graph_.activation(where, OpKind::kRelu, negative));
}

/// |x|; x / (1 + |x|); x tanh(log(1 + exp(x))).
void OnnxImporter::of_size(const OnnxNode& node) {
  const int id = in(node, 0);
  const std::string& where = module(node);
  const TensorId x = tensor(id);
  const auto activated = [&](OpKind kind, TensorId of) {
    return graph_.activation(where, kind, of);
  };
  if (node.op == "Mish") {
    const TensorId soft = activated(OpKind::kTanh, activated(OpKind::kSoftplus, x));
    return set(node, graph_.mul(where, x, soft), dims_of(id));
  }
  const TensorId size = size_of(node, x);
  set(node, node.op == "Abs" ? size : graph_.div(where, x, graph_.affine(where, size, 1, 1)),
      dims_of(id));
}

}  // namespace trainyard
