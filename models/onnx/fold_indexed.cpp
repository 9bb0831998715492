// Constants made by numbers that say where: look-ups, ranges, triangles.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/onnx/onnx_constant.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

/// An index into a dim, from its end where it is negative.
std::int64_t within(std::int64_t index, std::int64_t extent) {
  const std::int64_t at = index < 0 ? index + extent : index;
  if (at < 0 || at >= extent)
    throw FoldError("has index " + std::to_string(index) + " of " + std::to_string(extent));
  return at;
}

Dims joined(const Dims& a, const Dims& b, const Dims& c = {}) {
  Dims out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

std::int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

ConstantRef gather(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant &x = operand(inputs, 0), &index = operand(inputs, 1);
  const std::size_t axis = axis_of(node.integer("axis", 0), x.dims.size());
  const auto at = static_cast<std::ptrdiff_t>(axis);
  const Dims before(x.dims.begin(), x.dims.begin() + at);
  const Dims behind(x.dims.begin() + at + 1, x.dims.end());
  OnnxConstant out = empty_constant(x.type, joined(before, index.dims, behind));
  const std::int64_t run = product(behind), extent = x.dims[axis];
  std::size_t next = 0;
  for (std::int64_t outer = 0; outer < product(before); ++outer) {
    for (std::size_t i = 0; i < index.numbers.size(); ++i) {
      const std::int64_t from = (outer * extent + within(index.integer(i), extent)) * run;
      for (std::int64_t k = 0; k < run; ++k) out.numbers[next++] = x.numbers[from + k];
    }
  }
  return done(std::move(out));
}

ConstantRef gather_elements(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant &x = operand(inputs, 0), &index = operand(inputs, 1);
  const std::size_t axis = axis_of(node.integer("axis", 0), x.dims.size());
  if (index.dims.size() != x.dims.size()) throw FoldError("looks up another number of dims");
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    if (d != axis && index.dims[d] > x.dims[d]) throw FoldError("looks up more than is there");
  }
  OnnxConstant out = empty_constant(x.type, index.dims);
  const Dims strides = strides_of(x.dims);
  Dims at(x.dims.size(), 0);
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      from += strides[d] * (d == axis ? within(index.integer(i), x.dims[axis]) : at[d]);
    out.numbers[i] = x.numbers[from];
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == index.dims[d];) at[d] = 0;
  }
  return done(std::move(out));
}

/// Where each of the last dim's tuples of `index` points in a tensor of `dims`: the first element,
/// and how many there are.
struct Tuples {
  std::vector<std::int64_t> begins;
  std::int64_t run = 1;
  Dims outer, inner;
};

Tuples tuples(const OnnxConstant& index, const Dims& dims) {
  if (index.dims.empty() || index.dims.back() > static_cast<std::int64_t>(dims.size()) ||
      index.dims.back() < 1)
    throw FoldError("has tuples that name no dims");
  const auto length = static_cast<std::size_t>(index.dims.back());
  Tuples out;
  out.outer.assign(index.dims.begin(), index.dims.end() - 1);
  out.inner.assign(dims.begin() + static_cast<std::ptrdiff_t>(length), dims.end());
  out.run = product(out.inner);
  const Dims strides = strides_of(dims);
  for (std::size_t i = 0; i + length <= index.numbers.size(); i += length) {
    std::int64_t begin = 0;
    for (std::size_t d = 0; d < length; ++d)
      begin += strides[d] * within(index.integer(i + d), dims[d]);
    out.begins.push_back(begin);
  }
  return out;
}

ConstantRef gather_nd(const OnnxNode& node, const FoldInputs& inputs) {
  if (node.integer("batch_dims", 0) != 0) throw FoldError("has batch dims, which are not modelled");
  const OnnxConstant& x = operand(inputs, 0);
  const Tuples at = tuples(operand(inputs, 1), x.dims);
  OnnxConstant out = empty_constant(x.type, joined(at.outer, at.inner));
  std::size_t next = 0;
  for (const std::int64_t begin : at.begins) {
    for (std::int64_t k = 0; k < at.run; ++k) out.numbers[next++] = x.numbers[begin + k];
  }
  return done(std::move(out));
}

ConstantRef scatter_nd(const OnnxNode& node, const FoldInputs& inputs) {
  if (node.text("reduction", "none") != "none") throw FoldError("adds up, which is not modelled");
  OnnxConstant out = operand(inputs, 0);
  const Tuples at = tuples(operand(inputs, 1), out.dims);
  const OnnxConstant& updates = operand(inputs, 2);
  if (updates.dims != joined(at.outer, at.inner)) throw FoldError("has updates that do not fit");
  std::size_t next = 0;
  for (const std::int64_t begin : at.begins) {
    for (std::int64_t k = 0; k < at.run; ++k) out.numbers[begin + k] = updates.numbers[next++];
  }
  return done(std::move(out));
}

ConstantRef scatter_elements(const OnnxNode& node, const FoldInputs& inputs) {
  if (node.text("reduction", "none") != "none") throw FoldError("adds up, which is not modelled");
  OnnxConstant out = operand(inputs, 0);
  const OnnxConstant& index = operand(inputs, 1);
  const OnnxConstant& updates = operand(inputs, 2);
  if (index.dims.size() != out.dims.size() || updates.dims != index.dims)
    throw FoldError("has updates that do not fit");
  const std::size_t axis = axis_of(node.integer("axis", 0), out.dims.size());
  for (std::size_t d = 0; d < out.dims.size(); ++d) {
    if (d != axis && index.dims[d] > out.dims[d]) throw FoldError("has updates that do not fit");
  }
  const Dims strides = strides_of(out.dims);
  Dims at(out.dims.size(), 0);
  for (std::size_t i = 0; i < updates.numbers.size(); ++i) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      to += strides[d] * (d == axis ? within(index.integer(i), out.dims[axis]) : at[d]);
    out.numbers[to] = updates.numbers[i];
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == index.dims[d];) at[d] = 0;
  }
  return done(std::move(out));
}

ConstantRef range(const FoldInputs& inputs) {
  const OnnxConstant& from = operand(inputs, 0);
  const auto scalar = [&](std::size_t i) {
    const OnnxConstant& one = operand(inputs, i);
    if (one.numbers.size() != 1) throw FoldError("has bounds that are not one number each");
    return one.numbers[0];
  };
  const double start = scalar(0), limit = scalar(1), delta = scalar(2);
  const double count = std::ceil((limit - start) / delta);
  if (!(delta != 0) || !(count < static_cast<double>(kMostConstantElements)))
    throw FoldError("makes a constant of more than 2^24 elements");
  OnnxConstant out = empty_constant(from.type, {static_cast<std::int64_t>(std::max(0.0, count))});
  for (std::size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] = start + static_cast<double>(i) * delta;
  return done(std::move(out));
}

ConstantRef constant_of_shape(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxAttribute* value = node.find("value");
  OnnxConstant out = empty_constant(OnnxType::kFloat, operand(inputs, 0).integers());
  if (value != nullptr && value->tensor != nullptr) {
    const std::vector<double> numbers = read_numbers(*value->tensor, "");
    if (numbers.size() != 1) throw FoldError("fills with what is not one number");
    out.type = value->tensor->type;
    std::fill(out.numbers.begin(), out.numbers.end(), numbers[0]);
  }
  return done(std::move(out));
}

ConstantRef constant(const OnnxNode& node) {
  OnnxConstant out;
  if (const OnnxAttribute* value = node.find("value");
      value != nullptr && value->tensor != nullptr) {
    count_elements(value->tensor->dims);
    out.type = value->tensor->type;
    out.dims = value->tensor->dims;
    out.numbers = read_numbers(*value->tensor, "");
    return done(std::move(out));
  }
  for (const char* name : {"value_int", "value_ints", "value_float", "value_floats"}) {
    const OnnxAttribute* value = node.find(name);
    if (value == nullptr) continue;
    const std::string_view form(name);
    out.type = form.starts_with("value_int") ? OnnxType::kInt64 : OnnxType::kFloat;
    if (form.ends_with("s")) {
      out.numbers = Numbered<double>(value->numbers);
      out.dims = {static_cast<std::int64_t>(out.numbers.size())};
    } else {
      out.numbers = {value->number};
    }
    return done(std::move(out));
  }
  throw FoldError("has no value that is modelled");
}

/// Ones on a diagonal of as many rows and columns as the operand has, of its type or another.
ConstantRef eye(const OnnxNode& node, const FoldInputs& inputs) {
  const OnnxConstant& like = operand(inputs, 0);
  if (like.dims.size() != 2) throw FoldError("has no rows and columns");
  OnnxNode as = node;
  for (OnnxAttribute& attribute : as.attributes) {
    if (attribute.name == "dtype") attribute.name = "to";
  }
  const bool same = node.find("dtype") == nullptr;
  OnnxConstant out = empty_constant(same ? like.type : cast_type(as), like.dims);
  const std::int64_t columns = like.dims[1], k = node.integer("k", 0);
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at % columns - at / columns == k) out.numbers[i] = 1;
  }
  return done(std::move(out));
}

/// The upper or lower triangle of the last two dims.
ConstantRef triangle(const OnnxNode& node, const FoldInputs& inputs) {
  OnnxConstant out = operand(inputs, 0);
  if (out.dims.size() < 2) throw FoldError("has no triangle");
  const std::int64_t k = inputs.size() > 1 && inputs[1] != nullptr ? inputs[1]->integer(0) : 0;
  const bool upper = node.integer("upper", 1) != 0;
  const std::int64_t columns = out.dims.back(), rows = out.dims[out.dims.size() - 2];
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t column = at % columns, row = at / columns % rows;
    const bool kept = upper ? column >= row + k : column <= row + k;
    if (!kept) out.numbers[i] = 0;
  }
  return done(std::move(out));
}

}  // namespace

std::optional<ConstantRef> fold_indexed(const OnnxNode& node, const FoldInputs& inputs) {
  const std::string& op = node.op;
  if (op == "Constant") return constant(node);
  if (op == "ConstantOfShape") return constant_of_shape(node, inputs);
  if (op == "Gather") return gather(node, inputs);
  if (op == "GatherElements") return gather_elements(node, inputs);
  if (op == "GatherND") return gather_nd(node, inputs);
  if (op == "ScatterND") return scatter_nd(node, inputs);
  if (op == "ScatterElements") return scatter_elements(node, inputs);
  if (op == "Range") return range(inputs);
  if (op == "EyeLike") return eye(node, inputs);
  if (op == "Trilu") return triangle(node, inputs);
  return std::nullopt;
}

}  // namespace trainyard
