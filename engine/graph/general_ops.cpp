// Ops of any dims: views, ranges, sums and products.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/general_shapes.h"
#include "engine/graph/graph_builder.h"

namespace trainyard {

namespace {

OpAttrs along(int dim, std::int64_t begin = 0) {
  OpAttrs attrs;
  attrs.dim = static_cast<std::int8_t>(std::clamp(dim, -1, kMostDims));
  attrs.begin = begin;
  return attrs;
}

OpAttrs with_dims(const DimList& dims) {
  OpAttrs attrs;
  attrs.dims = dims;
  return attrs;
}

bool has(const Shape& shape, int dim) { return dim >= 0 && dim < std::ssize(shape); }

}  // namespace

TensorId GraphBuilder::view(std::string_view module, TensorId x, const Shape& to) {
  return add_general(module, OpKind::kView, {}, {&x, 1}, to);
}

TensorId GraphBuilder::pieces(std::string_view module, TensorId x, int dim, std::int64_t count) {
  Shape to = shape(x);
  if (has(to, dim) && count > 0) {
    to = with_dim(to, dim, to.begin()[dim] / count);
    to.insert(to.begin() + dim, count);
  }
  return add_general(module, OpKind::kPieces, along(dim), {&x, 1}, to);
}

TensorId GraphBuilder::permute(std::string_view module, TensorId x, const DimList& dims) {
  Shape to;
  for (const int dim : dims) to.push_back(has(shape(x), dim) ? shape(x).begin()[dim] : 0);
  return add_general(module, OpKind::kPermute, with_dims(dims), {&x, 1}, to);
}

TensorId GraphBuilder::roll(std::string_view module, TensorId x, int dim, std::int64_t by) {
  OpAttrs attrs = along(dim);
  const std::int64_t extent = has(shape(x), dim) ? shape(x).begin()[dim] : 1;
  attrs.by = static_cast<std::int32_t>((by % extent + extent) % extent);
  return add_general(module, OpKind::kRoll, attrs, {&x, 1}, shape(x));
}

TensorId GraphBuilder::flip(std::string_view module, TensorId x, int dim) {
  return add_general(module, OpKind::kFlip, along(dim), {&x, 1}, shape(x));
}

std::vector<TensorId> GraphBuilder::split(std::string_view module, TensorId x, int dim,
                                          std::span<const std::int64_t> sizes) {
  if (dim < 0 || sizes.empty())
    throw ConfigError(std::string(module) + ": split: no dim, or no parts");
  std::vector<TensorId> parts = add_split(module, x, dim, sizes, along(dim), Parts::kCopies);
  refuse_misfit(graph_.ops.back());
  return parts;
}

std::vector<TensorId> GraphBuilder::add_split(std::string_view module, TensorId x, int dim,
                                              std::span<const std::int64_t> sizes,
                                              const OpAttrs& attrs, Parts are) {
  const Shape whole = shape(x);
  Op op;
  op.kind = OpKind::kSplit;
  op.attrs = recent_attrs_.share(attrs);
  op.inputs = {x};
  std::vector<TensorId> parts;
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    Tensor part;
    part.shape = with_dim(whole, dim, size);
    part.dtype = graph_.tensors[x].dtype;
    part.needs_gradient = graph_.tensors[x].needs_gradient;
    part.producer = graph_.ops.next();
    part.name = activation_name(module_index(module), OpKind::kSplit);
    if (are == Parts::kViews) {
      part.alias = x;
      part.alias_offset = offset;
      offset += size;
    }
    parts.push_back(add_tensor(std::move(part)));
  }
  op.outputs.assign(parts.begin(), parts.end());
  append(module, std::move(op));
  return parts;
}

TensorId GraphBuilder::narrow(std::string_view module, TensorId x, int dim, std::int64_t begin,
                              std::int64_t length) {
  return add_general(module, OpKind::kNarrow, along(dim, begin), {&x, 1},
                     with_dim(shape(x), dim, length));
}

TensorId GraphBuilder::concat(std::string_view module, std::span<const TensorId> parts, int dim) {
  if (parts.empty()) throw ConfigError(std::string(module) + ": concat: no parts");
  std::int64_t extent = 0;
  for (const TensorId part : parts) {
    if (has(shape(part), dim)) extent += shape(part).begin()[dim];
  }
  return add_general(module, OpKind::kConcat, along(dim), parts,
                     with_dim(shape(parts[0]), dim, extent));
}

TensorId GraphBuilder::add(std::string_view module, TensorId a, TensorId b) {
  return broadcast_op(module, OpKind::kAdd, a, b);
}

TensorId GraphBuilder::mul(std::string_view module, TensorId a, TensorId b) {
  return broadcast_op(module, OpKind::kMul, a, b);
}

TensorId GraphBuilder::broadcast_op(std::string_view module, OpKind kind, TensorId a, TensorId b) {
  const TensorId inputs[] = {a, b};
  return add_general(module, kind, {}, inputs,
                     broadcast_shape(shape(a), shape(b)).value_or(shape(a)));
}

TensorId GraphBuilder::sub(std::string_view module, TensorId a, TensorId b) {
  return broadcast_op(module, OpKind::kSub, a, b);
}

TensorId GraphBuilder::div(std::string_view module, TensorId a, TensorId b) {
  return broadcast_op(module, OpKind::kDiv, a, b);
}

TensorId GraphBuilder::where(std::string_view module, TensorId condition, TensorId a, TensorId b) {
  const TensorId inputs[] = {condition, a, b};
  const auto both = broadcast_shape(shape(a), shape(b));
  const auto all = both ? broadcast_shape(shape(condition), *both) : std::nullopt;
  const TensorId y =
      add_op(module, OpKind::kWhere, {}, inputs, all.value_or(shape(a)), graph_.tensors[a].dtype);
  refuse_misfit(graph_.ops.back());
  return y;
}

TensorId GraphBuilder::affine(std::string_view module, TensorId x, double scale, double shift) {
  OpAttrs attrs;
  attrs.scale = static_cast<float>(scale);
  attrs.shift = static_cast<float>(shift);
  return add_general(module, OpKind::kAffine, attrs, {&x, 1}, shape(x));
}

TensorId GraphBuilder::power(std::string_view module, TensorId x, double exponent) {
  OpAttrs attrs;
  attrs.exponent = static_cast<float>(exponent);
  return add_general(module, OpKind::kPower, attrs, {&x, 1}, shape(x));
}

TensorId GraphBuilder::clamp(std::string_view module, TensorId x, double low, double high) {
  OpAttrs attrs;
  attrs.low = static_cast<float>(low);
  attrs.high = static_cast<float>(high);
  return add_general(module, OpKind::kClamp, attrs, {&x, 1}, shape(x));
}

TensorId GraphBuilder::cumsum(std::string_view module, TensorId x, int dim) {
  return add_general(module, OpKind::kCumsum, along(dim), {&x, 1}, shape(x));
}

TensorId GraphBuilder::zero_pad(std::string_view module, TensorId x, int dim, std::int64_t before,
                                std::int64_t behind) {
  OpAttrs attrs = along(dim, before);
  attrs.end = behind;
  const std::int64_t extent = has(shape(x), dim) ? shape(x).begin()[dim] : 1;
  return add_general(module, OpKind::kZeroPad, attrs, {&x, 1},
                     with_dim(shape(x), dim, extent + before + behind));
}

TensorId GraphBuilder::softmax(std::string_view module, TensorId x) {
  return add_op(module, OpKind::kSoftmax, {}, {x}, shape(x), graph_.tensors[x].dtype);
}

TensorId GraphBuilder::sum(std::string_view module, TensorId x, const DimList& dims, bool keepdim) {
  return add_general(module, OpKind::kSum, with_dims(dims), {&x, 1},
                     sum_shape(shape(x), dims, keepdim));
}

TensorId GraphBuilder::bmm(std::string_view module, TensorId a, TensorId b) {
  const TensorId inputs[] = {a, b};
  Shape to = shape(a);
  if (!to.empty() && !shape(b).empty()) to.back() = shape(b).back();
  return add_general(module, OpKind::kBmm, {}, inputs, to);
}

TensorId GraphBuilder::gather(std::string_view module, TensorId x, TensorId index) {
  const TensorId inputs[] = {x, index};
  Shape to = shape(x);
  if (to.size() > 1 && !shape(index).empty()) to.end()[-2] = shape(index).back();
  const TensorId y = add_op(module, OpKind::kGather, {}, inputs, to, graph_.tensors[x].dtype);
  refuse_misfit(graph_.ops.back());
  return y;
}

TensorId GraphBuilder::scatter(std::string_view module, TensorId x, TensorId index, TensorId rows,
                               bool adds) {
  OpAttrs attrs;
  attrs.adds = adds;
  const TensorId inputs[] = {x, index, rows};
  return add_general(module, OpKind::kScatter, attrs, inputs, shape(x));
}

TensorId GraphBuilder::combine(std::string_view module, Combination combination, TensorId a,
                               TensorId b) {
  OpAttrs attrs;
  attrs.combination = combination;
  const TensorId inputs[] = {a, b};
  return add_without_gradient(
      module, OpKind::kCombine, attrs, inputs,
      broadcast_shape(shape(a), shape(b)).value_or(shape(a)),
      makes_conditions(combination) ? DType::kUint8 : graph_.tensors[a].dtype);
}

TensorId GraphBuilder::argmax(std::string_view module, TensorId x) {
  const DimList last{static_cast<int>(shape(x).size()) - 1};
  return add_without_gradient(module, OpKind::kArgmax, {}, {&x, 1},
                              sum_shape(shape(x), last, /*keepdim=*/false), DType::kInt64);
}

TensorId GraphBuilder::topk(std::string_view module, TensorId x, std::int64_t count) {
  return add_without_gradient(module, OpKind::kTopk, {}, {&x, 1},
                              with_dim(shape(x), static_cast<int>(shape(x).size()) - 1, count),
                              DType::kInt64);
}

TensorId GraphBuilder::cast(std::string_view module, TensorId x, DType type) {
  return add_without_gradient(module, OpKind::kCast, {}, {&x, 1}, shape(x), type);
}

TensorId GraphBuilder::add_without_gradient(std::string_view module, OpKind kind,
                                            const OpAttrs& attrs, std::span<const TensorId> inputs,
                                            const Shape& output, DType dtype) {
  const TensorId y = add_op(module, kind, attrs, inputs, output, dtype);
  graph_.tensors[y].needs_gradient = false;
  refuse_misfit(graph_.ops.back());
  return y;
}

TensorId GraphBuilder::mse(std::string_view module, TensorId x, TensorId target, double weight) {
  return mean_loss(module, OpKind::kMse, x, target, weight);
}

TensorId GraphBuilder::bce(std::string_view module, TensorId x, TensorId target, double weight) {
  return mean_loss(module, OpKind::kBce, x, target, weight);
}

TensorId GraphBuilder::mean_loss(std::string_view module, OpKind kind, TensorId x, TensorId target,
                                 double weight) {
  OpAttrs attrs;
  attrs.scale = static_cast<float>(weight);
  const TensorId inputs[] = {x, target};
  const TensorId loss =
      add_op(module, kind, attrs, inputs, {1}, accumulation_type(graph_.tensors[x].dtype));
  refuse_misfit(graph_.ops.back());
  return loss;
}

TensorId GraphBuilder::add_general(std::string_view module, OpKind kind, const OpAttrs& attrs,
                                   std::span<const TensorId> inputs, const Shape& output) {
  const TensorId y =
      add_op(module, kind, attrs, inputs, output, graph_.tensors[inputs.front()].dtype);
  refuse_misfit(graph_.ops.back());
  return y;
}

void GraphBuilder::refuse_misfit(const Op& op) const {
  std::string problem = find_general_shape_problem(graph_, op);
  const DType type = graph_.tensors[op.inputs.back()].dtype;
  const bool looks_up = op.kind == OpKind::kGather || op.kind == OpKind::kScatter;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const DType given = graph_.tensors[op.inputs[i]].dtype;
    const bool condition = op.kind == OpKind::kWhere && i == 0;
    if (looks_up && (i == 1 || op.kind == OpKind::kGather)) continue;
    if (given != (condition ? DType::kUint8 : type))
      problem = condition ? "has a condition that is not of uint8" : "operands of several types";
  }
  if (looks_up && graph_.tensors[op.inputs[1]].dtype != DType::kInt64)
    problem = "has an index of real numbers";
  refuse(op, problem);
}

void GraphBuilder::refuse(const Op& op, const std::string& problem) const {
  if (problem.empty()) return;
  throw ConfigError(graph_.modules[op.module] + ": " + std::string(to_string(op.kind)) + " " +
                    problem);
}

}  // namespace trainyard
