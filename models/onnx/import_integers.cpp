// Integers and conditions that a model computes from its data. A comparison makes a condition,
// which is a mask from there on: whatever follows from it and constants is a choice between
// constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/onnx/importer.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

/// `holds`: where it is 1, else where it is 0.
void OnnxImporter::set_condition(const OnnxNode& node, TensorId tensor, Dims dims, bool holds) {
  set(node, tensor, std::move(dims));
  Value& v = value(node.outputs[0]);
  if (!holds) std::swap(v.ones, v.zeros);
}

void OnnxImporter::compare(const OnnxNode& node) {
  const bool turned = node.op.starts_with("Greater");
  const int a = in(node, turned ? 1 : 0), b = in(node, turned ? 0 : 1);
  const Combination how = node.op == "Equal"           ? Combination::kEqual
                          : node.op.ends_with("Equal") ? Combination::kLessOrEqual
                                                       : Combination::kLess;
  const Dims dims = broadcast_dims(dims_of(a), dims_of(b));
  set_condition(node, graph_.combine(module(node), how, tensor(a), tensor(b)), dims);
}

/// What differs from itself.
void OnnxImporter::is_nan(const OnnxNode& node) {
  const int id = in(node, 0);
  const TensorId x = tensor(id);
  set_condition(node, graph_.combine(module(node), Combination::kEqual, x, x), dims_of(id),
                /*holds=*/false);
}

/// Combines two conditions that do not follow from one mask.
void OnnxImporter::logical(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  const Combination how = node.op == "And"  ? Combination::kAnd
                          : node.op == "Or" ? Combination::kOr
                                            : Combination::kEqual;
  const Dims dims = broadcast_dims(dims_of(a), dims_of(b));
  set_condition(node, graph_.combine(module(node), how, tensor(a), tensor(b)), dims,
                /*holds=*/node.op != "Xor");
}

/// Exact, where the numbers of a sum of real ones are rounded as the model's type is.
void OnnxImporter::integer_binary(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  if (!is_whole(a) || !is_whole(b))
    throw FoldError("takes the remainder of real numbers, which is not modelled");
  const auto of_b = scalar(b);
  const ConstantRef constant_b = constant_of(b);
  const Dims dims = broadcast_dims(dims_of(a), dims_of(b));
  const std::string& op = node.op;
  const bool sum = op == "Add" || op == "Sub";
  if (of_b && dims == dims_of(a) && *of_b == (sum ? 0 : 1) && op != "Mod") return pass_on(node);
  if (op == "Div" || op == "Mod") {
    const auto zero = [&] {
      return std::count(constant_b->numbers.begin(), constant_b->numbers.end(), 0.0) > 0;
    };
    if (constant_b == nullptr || zero())
      throw FoldError(
          "divides integers by what are no constants other than 0, "
          "which is not modelled");
  }
  if (op == "Mod" && node.integer("fmod", 0) != 0)
    throw FoldError("takes C's remainder of integers, which is not modelled");
  if (op == "Pow" && of_b != 2.0) throw FoldError("takes integers to a power other than 2");
  const std::string& where = module(node);
  const TensorId x = tensor(a);
  if (op == "Pow") return set(node, graph_.mul(where, x, x), dims);
  const TensorId y = tensor(b);
  const TensorId made =
      op == "Add"   ? graph_.add(where, x, y)
      : op == "Sub" ? graph_.sub(where, x, y)
      : op == "Mul"
          ? graph_.mul(where, x, y)
          : graph_.combine(where, op == "Div" ? Combination::kQuotient : Combination::kRemainder, x,
                           y);
  set(node, made, dims);
}

/// Integers, real numbers and one constant, or the one that is less of each two real ones.
void OnnxImporter::least_or_largest(const OnnxNode& node) {
  const bool least = node.op == "Min";
  if (node.inputs.size() == 1) return pass_on(node);
  if (node.inputs.size() != 2) throw FoldError("compares more than two, which is not modelled");
  int a = in(node, 0), b = in(node, 1);
  const Dims dims = broadcast_dims(dims_of(a), dims_of(b));
  const std::string& where = module(node);
  if (is_whole(a)) {
    const Combination how = least ? Combination::kLeast : Combination::kLargest;
    return set(node, graph_.combine(where, how, tensor(a), tensor(b)), dims);
  }
  if (constant_of(a) != nullptr) std::swap(a, b);
  const auto bound = scalar(b);
  if (!bound) {
    const TensorId x = tensor(a), y = tensor(b);
    const TensorId less = graph_.combine(where, Combination::kLess, x, y);
    return set(node, graph_.where(where, less, least ? x : y, least ? y : x), dims);
  }
  constexpr double kMost = std::numeric_limits<float>::max();
  const double at = std::clamp(*bound, -kMost, kMost);
  set(node, graph_.clamp(where, tensor(a), least ? -kMost : at, least ? at : kMost), dims);
}

/// A comparison with 0, 1, ..., which chooses between the two values.
void OnnxImporter::one_hot(const OnnxNode& node) {
  const int id = in(node, 0);
  const std::int64_t depth = constant_in(node, 1).integer(0);
  const OnnxConstant& values = constant_in(node, 2);
  if (values.numbers.size() != 2 || depth < 1 || depth > kMostConstantElements)
    throw FoldError("has no depth, or not two values");
  Dims dims = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", -1), dims.size() + 1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  const TensorId ids = viewed(node, full_tensor(id), dims);
  OnnxConstant classes = empty_constant(OnnxType::kInt64, {depth});
  for (std::size_t i = 0; i < classes.numbers.size(); ++i)
    classes.numbers[i] = static_cast<double>(i);
  classes.dims.insert(classes.dims.end(), dims.size() - axis - 1, 1);
  dims[axis] = depth;
  set_condition(
      node, graph_.combine(module(node), Combination::kEqual, ids, constant_tensor(classes)), dims);
  Value& v = value(node.outputs[0]);
  v.type = values.type;
  v.ones = done({values.type, {}, {values.numbers[1]}});
  v.zeros = done({values.type, {}, {values.numbers[0]}});
}

/// x with `axis` behind the others, which keep their order.
TensorId OnnxImporter::with_last(const OnnxNode& node, TensorId x, std::size_t axis) {
  const std::size_t dims = graph_.shape(x).size();
  if (axis + 1 == dims) return x;
  DimList order;
  for (std::size_t d = 0; d < dims; ++d) {
    if (d != axis) order.push_back(static_cast<int>(d));
  }
  order.push_back(static_cast<int>(axis));
  return graph_.permute(module(node), x, order);
}

/// And back: the last dim at `axis`.
TensorId OnnxImporter::with_last_at(const OnnxNode& node, TensorId x, std::size_t axis) {
  const std::size_t dims = graph_.shape(x).size();
  if (axis + 1 == dims) return x;
  DimList order;
  for (std::size_t d = 0; d < dims; ++d)
    order.push_back(static_cast<int>(d < axis ? d : d == axis ? dims - 1 : d - 1));
  return graph_.permute(module(node), x, order);
}

/// Indices of the largest, or smallest, of each row, and the elements there.
void OnnxImporter::topk(const OnnxNode& node) {
  const int id = in(node, 0);
  if (is_whole(id)) throw FoldError("orders integers, which is not modelled");
  Dims to = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", -1), to.size());
  if (is_batch(id, axis)) throw FoldError("orders samples, which is not modelled");
  const std::int64_t count = constant_in(node, 1).integer(0);
  if (count < 1 || count > to[axis])
    throw FoldError("takes " + std::to_string(count) + " of " + std::to_string(to[axis]));
  to[axis] = count;
  const std::string& where = module(node);
  const TensorId x = with_last(node, full_tensor(id), axis);
  const bool largest = node.integer("largest", 1) != 0;
  const TensorId at = graph_.topk(where, largest ? x : graph_.affine(where, x, -1), count);
  if (reads_output(node, 0)) {
    Dims rows = shape_dims(x), turned = shape_dims(at);
    rows.push_back(1);
    const TensorId values = graph_.gather(where, viewed(node, x, rows), at);
    set(node, with_last_at(node, viewed(node, values, turned), axis), to);
  }
  if (reads_output(node, 1)) set(node, with_last_at(node, at, axis), to, 1);
}

void OnnxImporter::argmax(const OnnxNode& node) {
  const int id = in(node, 0);
  if (node.integer("select_last_index", 0) != 0)
    throw FoldError("takes the last of those that are equal, which is not modelled");
  Dims to = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", 0), to.size());
  const TensorId at = graph_.argmax(module(node), with_last(node, full_tensor(id), axis));
  to[axis] = 1;
  if (node.integer("keepdims", 1) == 0) to = squeezed_dims(to, {static_cast<std::int64_t>(axis)});
  set(node, viewed(node, at, to), to);
}

/// To the type of something else, which is data.
void OnnxImporter::cast_mask(const OnnxNode& node, OnnxType to) {
  const int id = node.inputs[0];
  operands_[now_].push_back(id);
  set(node, own_tensor(id), dims_of(id));
  const auto as = [&](const OnnxConstant& from) {
    OnnxConstant out = from;
    out.type = to;
    return done(std::move(out));
  };
  Value& v = value(node.outputs[0]);
  v.ones = as(*value(id).ones);
  v.zeros = as(*value(id).zeros);
  v.type = to;
}

}  // namespace trainyard
