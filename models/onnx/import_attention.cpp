// Attention as one node, made of the products and the softmax that earlier operator sets write.
#include <cmath>
#include <limits>

#include "models/onnx/importer.h"

namespace trainyard {

/// x as what is added to scores: 0 where a condition holds, and else -inf.
TensorId OnnxImporter::as_scores(int id) {
  if (is_floating(type_of(id))) return tensor(id);
  const auto of = [](const OnnxConstant& condition) {
    OnnxConstant out = condition;
    out.type = OnnxType::kFloat;
    for (double& x : out.numbers) x = x != 0 ? 0 : -std::numeric_limits<double>::infinity();
    return out;
  };
  if (const ConstantRef constant = constant_of(id)) return shrunk_constant(of(*constant));
  if (!is_masked(id)) throw FoldError("has a mask of integers, which is not modelled");
  operands_[now_].push_back(id);
  return graph_.where(reader(), own_tensor(id), shrunk_constant(of(*value(id).ones)),
                      shrunk_constant(of(*value(id).zeros)));
}

/// x [B, G, T, E] as [B, H, T, E]: each group of heads has one.
TensorId OnnxImporter::for_each_head(const OnnxNode& node, TensorId x, std::int64_t heads) {
  const Dims dims = shape_dims(x);
  if (dims[1] == heads) return x;
  if (dims[1] < 1 || heads % dims[1] != 0)
    throw FoldError("has " + std::to_string(heads) + " heads of queries and " +
                    std::to_string(dims[1]) + " of keys");
  x = viewed(node, x, {dims[0], dims[1], 1, dims[2], dims[3]});
  x = repeated(x, {dims[0], dims[1], heads / dims[1], dims[2], dims[3]});
  return viewed(node, x, {dims[0], heads, dims[2], dims[3]});
}

/// torch's scaled_dot_product_attention from operator set 23 on, as earlier ones write it out.
void OnnxImporter::attention(const OnnxNode& node) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (dims_of(in(node, i)).size() != 4)
      throw FoldError("has heads and features in one dim, which is not modelled");
  }
  if (has_input(node, 4) || has_input(node, 5))
    throw FoldError("has keys of tokens before, which is not modelled");
  if (node.number("softcap", 0) != 0) throw FoldError("caps its scores, which is not modelled");
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoOnnxValue && !readers_[node.outputs[i]].empty())
      throw FoldError("gives more than its result, which is not modelled");
  }
  const std::string& where = module(node);
  const Dims of_q = dims_of(node.inputs[0]), of_k = dims_of(node.inputs[1]);
  const std::int64_t heads = of_q[1];
  const TensorId q = graph_.affine(where, full_tensor(node.inputs[0]),
                                   node.number("scale", 1 / std::sqrt(of_q[3])));
  const TensorId k = for_each_head(node, full_tensor(node.inputs[1]), heads);
  const TensorId v = for_each_head(node, full_tensor(node.inputs[2]), heads);
  TensorId scores = graph_.bmm(where, q, graph_.permute(where, k, {0, 1, 3, 2}));
  if (node.integer("is_causal", 0) != 0) {
    OnnxConstant later = empty_constant(OnnxType::kFloat, {of_q[2], of_k[2]});
    for (std::int64_t i = 0; i < of_q[2]; ++i) {
      for (std::int64_t j = i + 1; j < of_k[2]; ++j)
        later.numbers[i * of_k[2] + j] = -std::numeric_limits<double>::infinity();
    }
    scores = graph_.add(where, scores, constant_tensor(later));
  }
  if (has_input(node, 3)) scores = graph_.add(where, scores, as_scores(node.inputs[3]));
  set(node, graph_.bmm(where, graph_.softmax(where, scores), v));
}

}  // namespace trainyard
