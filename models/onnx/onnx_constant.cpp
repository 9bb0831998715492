#include "models/onnx/onnx_constant.h"

#include <algorithm>
#include <cmath>

namespace trainyard {

namespace {

double rounded(OnnxType type, double value) {
  switch (type) {
    case OnnxType::kDouble: return value;
    case OnnxType::kBool: return value != 0 ? 1 : 0;
    default: break;
  }
  if (is_floating(type)) return static_cast<double>(static_cast<float>(value));
  return std::isnan(value) ? 0 : std::trunc(value);
}

}  // namespace

std::int64_t OnnxConstant::integer(std::size_t i) const {
  if (i >= numbers.size()) throw FoldError("has too few numbers");
  return to_integer(numbers[i]);
}

std::vector<std::int64_t> OnnxConstant::integers() const {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < numbers.size(); ++i) out.push_back(integer(i));
  return out;
}

const OnnxConstant& operand(const FoldInputs& inputs, std::size_t i) {
  if (i >= inputs.size() || inputs[i] == nullptr)
    throw FoldError("lacks its operand " + std::to_string(i));
  return *inputs[i];
}

std::int64_t count_elements(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) throw FoldError("makes a dim of " + std::to_string(dim));
    if (__builtin_mul_overflow(count, dim, &count) || count > kMostConstantElements)
      throw FoldError("makes a constant of more than 2^24 elements");
  }
  return count;
}

OnnxConstant empty_constant(OnnxType type, std::vector<std::int64_t> dims) {
  OnnxConstant out;
  out.type = type;
  out.numbers.resize(count_elements(dims));
  out.dims = std::move(dims);
  return out;
}

ConstantRef done(OnnxConstant constant) {
  for (double& number : constant.numbers) number = rounded(constant.type, number);
  return std::make_shared<const OnnxConstant>(std::move(constant));
}

std::size_t axis_of(std::int64_t axis, std::size_t dims) {
  const auto count = static_cast<std::int64_t>(dims);
  const std::int64_t at = axis < 0 ? axis + count : axis;
  if (at < 0 || at >= count)
    throw FoldError("has axis " + std::to_string(axis) + " of " + std::to_string(count) + " dims");
  return static_cast<std::size_t>(at);
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

std::vector<std::int64_t> broadcast_dims(const std::vector<std::int64_t>& a,
                                         const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw FoldError("has operands that do not fit: " + std::to_string(x) + " and " +
                      std::to_string(y) + " elements of a dim");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

OnnxConstant strided(const OnnxConstant& from, const std::vector<std::int64_t>& dims,
                     const std::vector<std::int64_t>& steps, std::int64_t begin) {
  OnnxConstant out = empty_constant(from.type, dims);
  std::vector<std::int64_t> at(dims.size(), 0);
  std::int64_t source = begin;
  for (double& number : out.numbers) {
    number = from.numbers[source];
    for (std::size_t d = dims.size(); d-- > 0;) {
      source += steps[d];
      if (++at[d] < dims[d]) break;
      source -= steps[d] * dims[d];
      at[d] = 0;
    }
  }
  return out;
}

OnnxConstant expanded(const OnnxConstant& from, const std::vector<std::int64_t>& dims) {
  if (from.dims == dims) return from;
  if (broadcast_dims(from.dims, dims) != dims) throw FoldError("repeats dims that are not of 1");
  const std::size_t missing = dims.size() - from.dims.size();
  const std::vector<std::int64_t> strides = strides_of(from.dims);
  std::vector<std::int64_t> steps(dims.size(), 0);
  for (std::size_t d = missing; d < dims.size(); ++d)
    steps[d] = from.dims[d - missing] == 1 ? 0 : strides[d - missing];
  return strided(from, dims, steps);
}

OnnxConstant without_repeats(OnnxConstant constant) {
  for (std::size_t d = 0; d < constant.dims.size(); ++d) {
    const std::int64_t extent = constant.dims[d];
    if (extent <= 1) continue;
    // Runs of so many elements have one index of the dim, the first of which may stand for all.
    const std::int64_t run = strides_of(constant.dims)[d], whole = run * extent;
    const auto begin = constant.numbers.begin(), end = constant.numbers.end();
    bool same = true;
    for (auto first = begin; first != end && same; first += whole) {
      for (std::int64_t i = 1; i < extent && same; ++i)
        same = std::equal(first, first + run, first + i * run);
    }
    if (!same) continue;
    Numbered<double> kept;
    kept.reserve(constant.numbers.size() / extent);
    for (auto first = begin; first != end; first += whole)
      kept.insert(kept.end(), first, first + run);
    constant.numbers = std::move(kept);
    constant.dims[d] = 1;
  }
  return constant;
}

std::vector<std::int64_t> reshaped_dims(const std::vector<std::int64_t>& from,
                                        std::vector<std::int64_t> to, bool zero_is_zero) {
  std::int64_t all = 1, known = 1;
  for (const std::int64_t dim : from) all *= dim;
  std::int64_t* open = nullptr;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !zero_is_zero) {
      if (d >= from.size()) throw FoldError("keeps a dim that is not there");
      to[d] = from[d];
    }
    if (to[d] == -1) {
      if (open != nullptr) throw FoldError("leaves two dims open");
      open = &to[d];
    } else if (to[d] < 0 || __builtin_mul_overflow(known, to[d], &known)) {
      throw FoldError("makes a dim of " + std::to_string(to[d]));
    }
  }
  if (open != nullptr) *open = known > 0 && all % known == 0 ? all / known : -1;
  const bool fits = open != nullptr ? *open >= 0 : known == all;
  if (!fits)
    throw FoldError("views " + std::to_string(all) + " elements in dims of " +
                    std::to_string(known));
  return to;
}

std::optional<std::vector<ConstantRef>> fold(const OnnxNode& node, const FoldInputs& inputs) {
  if (auto one = fold_elementwise(node, inputs)) return std::vector{*one};
  if (auto several = fold_movement(node, inputs)) return several;
  if (auto one = fold_indexed(node, inputs)) return std::vector{*one};
  if (auto one = fold_product(node, inputs)) return std::vector{*one};
  if (auto one = fold_reduction(node, inputs)) return std::vector{*one};
  return std::nullopt;
}

}  // namespace trainyard
