// Constants summed up, along axes or up to each index.
#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>

#include "models/onnx/onnx_constant.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

struct Reduction {
  double start;
  double (*add)(double, double);
  bool mean = false;
};

std::optional<Reduction> reduction_of(std::string_view op) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto sum = [](double a, double b) { return a + b; };
  if (op == "ReduceSum") return Reduction{0, sum};
  if (op == "ReduceMean") return Reduction{0, sum, true};
  if (op == "ReduceProd") return Reduction{1, [](double a, double b) { return a * b; }};
  if (op == "ReduceMax")
    return Reduction{-kInfinity, [](double a, double b) { return std::max(a, b); }};
  if (op == "ReduceMin")
    return Reduction{kInfinity, [](double a, double b) { return std::min(a, b); }};
  return std::nullopt;
}

ConstantRef reduce(const OnnxNode& node, const FoldInputs& inputs, const Reduction& how) {
  const OnnxConstant& x = operand(inputs, 0);
  const Dims axes =
      inputs.size() > 1 && inputs[1] != nullptr ? inputs[1]->integers() : node.integers("axes");
  std::vector<bool> gone(x.dims.size(),
                         axes.empty() && node.integer("noop_with_empty_axes", 0) == 0);
  for (const std::int64_t axis : axes) gone[axis_of(axis, x.dims.size())] = true;
  Dims kept = x.dims, removed;
  for (std::size_t d = 0; d < gone.size(); ++d) {
    if (gone[d]) kept[d] = 1, removed.push_back(static_cast<std::int64_t>(d));
  }
  OnnxConstant out = empty_constant(x.type, kept);
  std::fill(out.numbers.begin(), out.numbers.end(), how.start);
  const Dims strides = strides_of(kept);
  Dims at(x.dims.size(), 0);
  for (const double number : x.numbers) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < at.size(); ++d) to += gone[d] ? 0 : at[d] * strides[d];
    double& sum = out.numbers[to];
    sum = how.add(sum, number);
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == x.dims[d];) at[d] = 0;
  }
  if (how.mean && !out.numbers.empty()) {
    const double each =
        static_cast<double>(x.numbers.size()) / static_cast<double>(out.numbers.size());
    for (double& number : out.numbers) number /= each;
  }
  if (node.integer("keepdims", 1) == 0 && !removed.empty()) out.dims = squeezed_dims(kept, removed);
  return done(std::move(out));
}

ConstantRef sum_up(const OnnxNode& node, const FoldInputs& inputs) {
  OnnxConstant out = operand(inputs, 0);
  if (node.integer("exclusive", 0) != 0 || node.integer("reverse", 0) != 0)
    throw FoldError("sums up exclusively or backwards, which is not modelled");
  const std::size_t axis = axis_of(operand(inputs, 1).integer(0), out.dims.size());
  const std::int64_t stride = strides_of(out.dims)[axis], extent = out.dims[axis];
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    if (static_cast<std::int64_t>(i) / stride % extent > 0)
      out.numbers[i] += out.numbers[i - stride];
  }
  return done(std::move(out));
}

}  // namespace

std::optional<ConstantRef> fold_reduction(const OnnxNode& node, const FoldInputs& inputs) {
  if (const auto how = reduction_of(node.op)) return reduce(node, inputs, *how);
  if (node.op == "CumSum") return sum_up(node, inputs);
  return std::nullopt;
}

}  // namespace trainyard
