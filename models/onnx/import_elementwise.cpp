// Nodes that compute element by element, and sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/onnx/importer.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {

std::optional<OpKind> unary_kind(std::string_view op) {
  static const std::unordered_map<std::string_view, OpKind> known = {
      {"Relu", OpKind::kRelu},         {"Tanh", OpKind::kTanh}, {"Exp", OpKind::kExp},
      {"Log", OpKind::kLog},           {"Erf", OpKind::kErf},   {"Sigmoid", OpKind::kSigmoid},
      {"Softplus", OpKind::kSoftplus}, {"Sin", OpKind::kSin},   {"Cos", OpKind::kCos}};
  const auto it = known.find(op);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace

/// x op number, or number op x where the number comes first.
void OnnxImporter::with_scalar(const OnnxNode& node, int x, double number, bool first) {
  const std::string& op = node.op;
  const std::string& where = module(node);
  TensorId y = tensor(x);
  if (op == "Add") {
    y = graph_.affine(where, y, 1, number);
  } else if (op == "Mul") {
    y = graph_.affine(where, y, number);
  } else if (op == "Sub") {
    y = graph_.affine(where, y, first ? -1 : 1, first ? number : -number);
  } else if (op == "Div" && !first) {
    if (number == 0) throw FoldError("divides by 0");
    y = graph_.affine(where, y, 1 / number);
  } else if (op == "Div") {
    y = graph_.affine(where, graph_.power(where, y, -1), number);
  } else if (op == "Pow" && !first) {
    y = graph_.power(where, y, number);
  } else {
    throw FoldError("takes a number to the power of data, which is not modelled");
  }
  const int other = node.inputs[first ? 0 : 1];
  set(node, y, broadcast_dims(dims_of(x), dims_of(other)));
}

void OnnxImporter::binary(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  if (is_whole(constant_of(a) == nullptr ? a : b)) return integer_binary(node);
  const auto of_a = scalar(a), of_b = scalar(b);
  // The exact numbers of a sum or product with nothing are not worth a kernel.
  const bool nothing = of_b && ((*of_b == 0 && (node.op == "Add" || node.op == "Sub")) ||
                                (*of_b == 1 && (node.op == "Mul" || node.op == "Div")));
  const auto dims = broadcast_dims(dims_of(a), dims_of(b));
  if (nothing && dims == dims_of(a)) return pass_on(node);
  if (of_b && std::isfinite(*of_b)) return with_scalar(node, a, *of_b, false);
  if (of_a && std::isfinite(*of_a)) return with_scalar(node, b, *of_a, true);
  const std::string& where = module(node);
  TensorId x = tensor(a), y = tensor(b);
  if (node.op == "Add") {
    x = graph_.add(where, x, y);
  } else if (node.op == "Sub") {
    x = graph_.sub(where, x, y);
  } else if (node.op == "Mul") {
    x = x == y ? graph_.power(where, x, 2) : graph_.mul(where, x, y);
  } else if (node.op == "Div") {
    x = graph_.div(where, x, y);
  } else {
    throw FoldError("has an exponent that is not one number");
  }
  set(node, x, dims);
}

void OnnxImporter::unary(const OnnxNode& node) {
  const int id = in(node, 0);
  const std::string& where = module(node);
  const TensorId x = tensor(id);
  if (const auto kind = unary_kind(node.op))
    return set(node, graph_.activation(where, *kind, x), dims_of(id));
  if (node.op == "Sqrt") return set(node, graph_.power(where, x, 0.5), dims_of(id));
  if (node.op == "Reciprocal") return set(node, graph_.power(where, x, -1), dims_of(id));
  set(node, graph_.affine(where, x, -1), dims_of(id));  // Neg
}

void OnnxImporter::gelu(const OnnxNode& node) {
  const int id = in(node, 0);
  const bool tanh = node.text("approximate", "none") == "tanh";
  set(node, graph_.activation(module(node), OpKind::kGelu, tensor(id), tanh), dims_of(id));
}

void OnnxImporter::clip(const OnnxNode& node) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto bound = [&](std::size_t i, double none) {
    if (!has_input(node, i)) return none;
    const auto number = scalar(node.inputs[i]);
    if (!number) throw FoldError("has bounds that are not one number each");
    return std::clamp(*number, -kMost, kMost);
  };
  const int id = in(node, 0);
  set(node, graph_.clamp(module(node), tensor(id), bound(1, -kMost), bound(2, kMost)), dims_of(id));
}

void OnnxImporter::where(const OnnxNode& node) {
  const int condition = in(node, 0), a = in(node, 1), b = in(node, 2);
  const auto dims = broadcast_dims(dims_of(condition), broadcast_dims(dims_of(a), dims_of(b)));
  if (const auto always = scalar(condition)) {
    const int taken = *always != 0 ? a : b;
    Value result = value(taken);
    if (result.kind == Value::Kind::kTensor) result.tensor = tensor(taken);
    result.dims = dims;
    if (result.kind == Value::Kind::kTensor) return set(node, result.tensor, dims);
  }
  if (is_masked(condition)) return choose(node);
  constant_in(node, 0);
  set(node, graph_.where(module(node), tensor(condition), tensor(a), tensor(b)), dims);
}

OnnxType OnnxImporter::type_of(DType type) {
  if (type == DType::kInt64) return OnnxType::kInt64;
  return type == DType::kUint8 ? OnnxType::kBool : OnnxType::kFloat;
}

OnnxType OnnxImporter::type_of(int id) {
  const Value& v = value(id);
  if (v.kind == Value::Kind::kInitializer) return initializer(v).type;
  if (v.kind == Value::Kind::kConstant) return v.constant->type;
  return v.type;
}

void OnnxImporter::cast(const OnnxNode& node) {
  const int id = in(node, 0);
  const OnnxType to = node.op == "CastLike" ? type_of(in(node, 1)) : cast_type(node);
  if (const ConstantRef constant = constant_of(id)) {  // like what is data
    OnnxConstant as = *constant;
    as.type = to;
    Value& v = value(node.outputs[0]);
    v.kind = Value::Kind::kConstant;
    v.dims = as.dims;
    v.constant = done(std::move(as));
    return;
  }
  if (is_masked(id)) return cast_mask(node, to);
  if (to == OnnxType::kBool) {  // what is not 0
    const TensorId zero = constant_tensor({type_of(id), {}, {0}});
    return set_condition(node, graph_.combine(module(node), Combination::kEqual, tensor(id), zero),
                         dims_of(id), /*holds=*/false);
  }
  if (is_whole(id) != is_floating(to)) return pass_on(node);
  const DType type = is_floating(to) ? options_.compute : DType::kInt64;
  set(node, graph_.cast(module(node), tensor(id), type), dims_of(id));
}

void OnnxImporter::dropout(const OnnxNode& node) {
  const int id = in(node, 0);
  set(node, graph_.dropout(module(node), tensor(id), options_.dropout), dims_of(id));
}

bool OnnxImporter::is_batch(int id, std::size_t axis) const {
  return has_batch(id, axis, values_[id].dims);
}

/// The same of a value that is not made yet, which will be of `dims`.
bool OnnxImporter::has_batch(int id, std::size_t axis, const Dims& dims) const {
  if (wider_ == nullptr || !is_of_data(id)) return false;
  // What a larger batch did not get to has it first, as inputs do.
  if (wider_->empty() || (*wider_)[id].size() != dims.size()) return axis == 0;
  return (*wider_)[id][axis] != dims[axis];
}

/// All where the node names none; none where it says that these are none.
OnnxImporter::Dims OnnxImporter::reduced_axes(const OnnxNode& node, std::size_t dims) {
  Dims axes = axes_in(node, 1);
  if (!axes.empty() || node.integer("noop_with_empty_axes", 0) != 0) return axes;
  for (std::size_t d = 0; d < dims; ++d) axes.push_back(static_cast<std::int64_t>(d));
  return axes;
}

void OnnxImporter::reduce(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const Dims axes = reduced_axes(node, dims.size());
  if (axes.empty()) return pass_on(node);
  DimList gone;
  Dims kept = dims, removed;
  double elements = 1;
  for (const std::int64_t axis : axes) {
    const std::size_t at = axis_of(axis, dims.size());
    const auto of_axis = static_cast<std::int64_t>(at);
    if (std::count(removed.begin(), removed.end(), of_axis) > 0)
      throw FoldError("names axis " + std::to_string(axis) + " twice");
    // A replica would take it over its own samples, and all replicas over too few.
    if (node.op == "ReduceMean" && is_batch(id, at))
      throw FoldError("takes a mean over the batch, which is not modelled");
    elements *= static_cast<double>(kept[at]);
    kept[at] = 1;
    gone.push_back(static_cast<int>(at));
    removed.push_back(of_axis);
  }
  const std::string& where = module(node);
  TensorId x = full_tensor(id);
  if (node.op == "ReduceL1") x = size_of(node, x);
  if (node.op == "ReduceL2" || node.op == "ReduceSumSquare") x = graph_.power(where, x, 2);
  TensorId y = graph_.sum(where, x, gone, /*keepdim=*/true);
  if (node.op == "ReduceMean") y = graph_.affine(where, y, 1 / elements);
  if (node.op == "ReduceL2") y = graph_.power(where, y, 0.5);
  if (node.integer("keepdims", 1) == 0) {
    kept = squeezed_dims(kept, removed);
    y = viewed(node, y, kept);
  }
  set(node, y, kept);
}

/// The element where the largest, or least, of an axis is, which becomes one of one element.
TensorId OnnxImporter::extreme_of(const OnnxNode& node, TensorId x, std::size_t axis, bool least) {
  const std::string& where = module(node);
  x = with_last(node, x, axis);
  const TensorId at = graph_.argmax(where, least ? graph_.affine(where, x, -1) : x);
  Dims rows = shape_dims(x), one = shape_dims(x);
  rows.push_back(1);
  one.back() = 1;
  const TensorId y = graph_.gather(where, viewed(node, x, rows), viewed(node, at, one));
  return with_last_at(node, viewed(node, y, one), axis);
}

/// One axis after the other.
void OnnxImporter::extreme(const OnnxNode& node) {
  const int id = in(node, 0);
  Dims to = dims_of(id), removed;
  for (const std::int64_t axis : reduced_axes(node, to.size())) {
    if (is_batch(id, axis_of(axis, to.size())))
      throw FoldError("looks for one in the batch, which is not modelled");
    removed.push_back(axis);
  }
  TensorId x = full_tensor(id);
  for (const std::int64_t axis : removed) {
    const std::size_t at = axis_of(axis, to.size());
    if (to[at] != 1) x = extreme_of(node, x, at, node.op == "ReduceMin");
    to[at] = 1;
  }
  if (node.integer("keepdims", 1) == 0) to = squeezed_dims(to, removed);
  set(node, viewed(node, x, to), to);
}

/// x less the logarithm of the sum of its exponentials over an axis, or that logarithm. The largest
/// is taken out before, of which no gradient comes, as the result does not depend on it.
void OnnxImporter::log_of_sum(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const bool soft = node.op == "LogSoftmax";
  const Dims axes = soft ? Dims{node.integer("axis", -1)} : reduced_axes(node, dims.size());
  if (axes.size() != 1) throw FoldError("sums over several dims, which is not modelled");
  const std::size_t axis = axis_of(axes[0], dims.size());
  if (is_batch(id, axis)) throw FoldError("sums over the batch, which is not modelled");
  const std::string& where = module(node);
  const TensorId x = full_tensor(id);
  const TensorId largest =
      graph_.cast(where, extreme_of(node, x, axis, /*least=*/false), graph_.type(x));
  const TensorId below = graph_.sub(where, x, largest);
  const TensorId sum = graph_.sum(where, graph_.activation(where, OpKind::kExp, below),
                                  {static_cast<int>(axis)}, /*keepdim=*/true);
  const TensorId log = graph_.activation(where, OpKind::kLog, sum);
  if (soft) return set(node, graph_.sub(where, below, log), dims);
  Dims to = dims;
  to[axis] = 1;
  if (node.integer("keepdims", 1) == 0) to = squeezed_dims(to, axes);
  set(node, viewed(node, graph_.add(where, log, largest), to), to);
}

void OnnxImporter::softmax(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", -1), dims.size());
  TensorId x = full_tensor(id);
  const std::string& where = module(node);
  const bool last = axis + 1 == dims.size();
  DimList order;  // swaps the axis and the last dim, there and back
  for (std::size_t d = 0; d < dims.size(); ++d)
    order.push_back(static_cast<int>(d == axis              ? dims.size() - 1
                                     : d + 1 == dims.size() ? axis
                                                            : d));
  if (!last) x = graph_.permute(where, x, order);
  x = graph_.softmax(where, x);
  if (!last) x = graph_.permute(where, x, order);
  set(node, x, dims);
}

void OnnxImporter::cumsum(const OnnxNode& node) {
  const int id = in(node, 0);
  const auto axis = static_cast<int>(axis_of(constant_in(node, 1).integer(0), dims_of(id).size()));
  const bool reverse = node.integer("reverse", 0) != 0;
  const std::string& where = module(node);
  TensorId x = full_tensor(id);
  const std::int64_t extent = graph_.shape(x).begin()[axis];
  if (reverse) x = graph_.flip(where, x, axis);
  x = graph_.cumsum(where, x, axis);
  if (node.integer("exclusive", 0) != 0)
    x = graph_.narrow(where, graph_.zero_pad(where, x, axis, 1, 0), axis, 0, extent);
  if (reverse) x = graph_.flip(where, x, axis);
  set(node, x, dims_of(id));
}

}  // namespace trainyard
