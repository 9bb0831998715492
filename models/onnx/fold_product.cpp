// Products of constant matrices: angles of positions and frequencies.
#include "models/onnx/onnx_constant.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostMultiplications = std::int64_t{1} << 28;

}  // namespace

std::optional<ConstantRef> fold_product(const OnnxNode& node, const FoldInputs& inputs) {
  if (node.op != "MatMul") return std::nullopt;
  using Dims = std::vector<std::int64_t>;
  const OnnxConstant& a = operand(inputs, 0);
  const OnnxConstant& b = operand(inputs, 1);
  if (a.dims.size() < 2 || b.dims.size() < 2)
    throw FoldError("multiplies vectors, which is not modelled");
  const std::int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k) throw FoldError("multiplies matrices that do not fit");
  const Dims outer =
      broadcast_dims({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  const auto of_all = [&](const OnnxConstant& x) {
    Dims dims = outer;
    dims.insert(dims.end(), x.dims.end() - 2, x.dims.end());
    return expanded(x, dims);
  };
  Dims dims = outer;
  dims.insert(dims.end(), {m, n});
  OnnxConstant out = empty_constant(a.type, dims);
  const std::int64_t made = static_cast<std::int64_t>(out.numbers.size());
  if (k > 0 && made > kMostMultiplications / k)
    throw FoldError("multiplies constants of more than 2^28 pairs of elements");
  const OnnxConstant left = of_all(a), right = of_all(b);
  for (std::int64_t i = 0; i < made; ++i) {
    const std::int64_t matrix = i / (m * n), row = i / n % m, column = i % n;
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j)
      sum +=
          left.numbers[(matrix * m + row) * k + j] * right.numbers[(matrix * k + j) * n + column];
    out.numbers[i] = sum;
  }
  return done(std::move(out));
}

}  // namespace trainyard
