#include "engine/program/unseen_operands.h"

namespace trainyard {

namespace {

bool is_bias(OpKind kind, std::size_t operand, std::size_t operands) {
  switch (kind) {
    case OpKind::kLinear:
    case OpKind::kConv2d: return operand == 2;
    case OpKind::kAddBias:
    case OpKind::kBiasGelu: return operand == 1;
    case OpKind::kBiasDropoutAdd: return operand == 1 && operands > 2;
    default: return false;
  }
}

/// What a scatter writes: of its result's extents, with a row for each index.
Extents rows_at(const Extents& index, Extents result) {
  if (result.size() > 1 && !index.empty()) result.end()[-2] = index.back();
  return result;
}

}  // namespace

Extents local_extents_of(const Value& value) {
  Extents out;
  for (const Dim& dim : value.dims) out.push_back(dim.expected);
  return out;
}

Extents unseen_extents(OpKind kind, std::size_t operand, const OpTensors& tensors) {
  const auto of = [](const OpTensor& one) {
    return one.any() == nullptr ? Extents{} : local_extents_of(*one.any());
  };
  if (is_bias(kind, operand, tensors.operands.size())) {
    const Extents y = of(tensors.results[0]);
    return y.empty() ? y : Extents{y.back()};
  }
  if (kind == OpKind::kScatter && operand == 2)
    return rows_at(of(tensors.operands[1]), of(tensors.results[0]));
  if (kind != OpKind::kCrossEntropy) return of(tensors.results[0]);
  Extents rows = of(tensors.operands[1]);
  if (operand == 3) rows.insert(rows.begin(), 2);  // both sums
  return rows;
}

Extents unseen_whole(OpKind kind, const std::vector<Extents>& before, const Extents& result) {
  if (kind == OpKind::kScatter && before.size() == 2) return rows_at(before[1], result);
  const bool bias = kind == OpKind::kConv2d || kind == OpKind::kConvTranspose2d;
  return bias ? Extents{result[1]} : result;
}

}  // namespace trainyard
