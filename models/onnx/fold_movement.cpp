// Constants whose elements are carried elsewhere: other dims, orders, ranges, parts.
#include <algorithm>
#include <numeric>

#include "models/onnx/onnx_constant.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

ConstantRef with_dims(const OnnxConstant& from, Dims dims) {
  OnnxConstant out = from;
  out.dims = std::move(dims);
  return done(std::move(out));
}

/// Axes of an operand, or of an attribute where the op has none yet.
Dims axes_of(const OnnxNode& node, const FoldInputs& inputs, std::size_t at) {
  if (at < inputs.size() && inputs[at] != nullptr) return inputs[at]->integers();
  return node.integers("axes");
}

ConstantRef squeeze(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  return with_dims(x, squeezed_dims(x.dims, axes_of(node, inputs, 1)));
}

ConstantRef unsqueeze(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  return with_dims(x, unsqueezed_dims(x.dims, axes_of(node, inputs, 1)));
}

ConstantRef transpose(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  const Dims order = transposed_order(node, x.dims.size());
  const Dims strides = strides_of(x.dims);
  Dims dims, steps;
  for (const std::int64_t d : order) {
    dims.push_back(x.dims.begin()[d]);
    steps.push_back(strides.begin()[d]);
  }
  return done(strided(x, dims, steps, 0));
}

ConstantRef slice(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  Dims dims = x.dims, steps = strides_of(x.dims);
  std::int64_t begin = 0;
  for (const SliceRange& range : slice_ranges(node, x.dims, inputs)) {
    begin += range.begin * steps[range.axis];
    dims[range.axis] = range.count;
    steps[range.axis] *= range.step;
  }
  return done(strided(x, dims, steps, count_elements(dims) == 0 ? 0 : begin));
}

ConstantRef concat(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& first = operand(inputs, 0);
  const std::size_t axis = axis_of(node.integer("axis", 0), first.dims.size());
  Dims dims = first.dims;
  dims[axis] = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OnnxConstant& part = operand(inputs, i);
    Dims like = part.dims;
    if (like.size() != dims.size()) throw FoldError("joins parts that do not fit");
    dims[axis] += like[axis];
    like[axis] = first.dims[axis];
    if (like != first.dims) throw FoldError("joins parts that do not fit");
  }
  OnnxConstant out = empty_constant(first.type, dims);
  const std::int64_t behind = std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                              dims.end(), std::int64_t{1}, std::multiplies<>());
  std::int64_t begin = 0;
  const std::int64_t whole = dims[axis] * behind;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OnnxConstant& part = *inputs[i];
    const std::int64_t run = part.dims[axis] * behind;
    for (std::size_t k = 0; k < part.numbers.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      out.numbers[at / run * whole + begin + at % run] = part.numbers[k];
    }
    begin += run;
  }
  return done(std::move(out));
}

std::vector<ConstantRef> split(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  const std::size_t axis = axis_of(node.integer("axis", 0), x.dims.size());
  const Dims given = inputs.size() > 1 && inputs[1] != nullptr ? inputs[1]->integers() : Dims();
  const Dims sizes = split_sizes(x.dims[axis], node.outputs.size(), given);
  const Dims steps = strides_of(x.dims);
  std::vector<ConstantRef> out;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    Dims dims = x.dims;
    dims[axis] = size;
    out.push_back(done(strided(x, dims, steps, begin * steps[axis])));
    begin += size;
  }
  return out;
}

ConstantRef tile(const FoldInputs& inputs) {
  const OnnxConstant& x = operand(inputs, 0);
  const Dims times = operand(inputs, 1).integers();
  if (times.size() != x.dims.size()) throw FoldError("repeats another number of dims");
  // As (times, extent) of each dim, of which the first is repeated.
  Dims apart, together, all;
  for (std::size_t d = 0; d < times.size(); ++d) {
    apart.insert(apart.end(), {1, x.dims[d]});
    together.insert(together.end(), {times[d], x.dims[d]});
    std::int64_t product = 0;
    if (times[d] < 0 || __builtin_mul_overflow(times[d], x.dims[d], &product))
      throw FoldError("repeats a dim " + std::to_string(times[d]) + " times");
    all.push_back(product);
  }
  count_elements(all);
  OnnxConstant out = x;
  out.dims = apart;
  out = expanded(out, together);
  out.dims = all;
  return done(std::move(out));
}

}  // namespace

std::optional<std::vector<ConstantRef>> fold_movement(const OnnxNode& node,
                                                      const FoldInputs& inputs) {
  const std::string& op = node.op;
  if (op == "Reshape") {
    const OnnxConstant& x = operand(inputs, 0);
    return std::vector{with_dims(x, reshaped_dims(x.dims, operand(inputs, 1).integers(),
                                                  node.integer("allowzero", 0) != 0))};
  }
  if (op == "Flatten") {
    const OnnxConstant& x = operand(inputs, 0);
    return std::vector{with_dims(x, flattened_dims(x.dims, node.integer("axis", 1)))};
  }
  if (op == "Squeeze") return std::vector{squeeze(node, inputs)};
  if (op == "Unsqueeze") return std::vector{unsqueeze(node, inputs)};
  if (op == "Transpose") return std::vector{transpose(node, inputs)};
  if (op == "Slice") return std::vector{slice(node, inputs)};
  if (op == "Concat") return std::vector{concat(node, inputs)};
  if (op == "Split") return split(node, inputs);
  if (op == "Tile") return std::vector{tile(inputs)};
  if (op == "Expand") {
    const OnnxConstant& x = operand(inputs, 0);
    const Dims to = broadcast_dims(x.dims, operand(inputs, 1).integers());
    count_elements(to);
    return std::vector{done(expanded(x, to))};
  }
  return std::nullopt;
}

}  // namespace trainyard
