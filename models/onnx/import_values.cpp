// Values of an ONNX model as tensors of the graph.
#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "models/onnx/dim_groups.h"
#include "models/onnx/importer.h"

namespace trainyard {

const OnnxImporter::Dims& OnnxImporter::dims_of(int id) { return value(id).dims; }

OnnxImporter::Dims OnnxImporter::shape_dims(TensorId tensor) const {
  const Shape& shape = graph_.shape(tensor);
  return {shape.begin(), shape.end()};
}

namespace {

/// Constants are kept as numbers of 53 bits. What stands for no index at all, at the ends of the
/// type, may be off by a little.
void check_exact(const OnnxConstant& constant) {
  constexpr double kExact = 9007199254740992.0, kEnd = 4611686018427387904.0;  // 2^53, 2^62
  for (const double number : constant.numbers) {
    const double size = std::abs(number);
    if (size > kExact && size < kEnd)
      throw FoldError("reads integers beyond 2^53, which are not kept exactly");
  }
}

}  // namespace

TensorId OnnxImporter::constant_tensor(const OnnxConstant& constant) {
  const DType type = is_floating(constant.type)         ? options_.compute
                     : constant.type == OnnxType::kBool ? DType::kUint8
                                                        : DType::kInt64;
  const auto numbers = std::make_shared<const std::vector<double>>(constant.numbers);
  if (type == DType::kInt64) check_exact(constant);
  Constant content;
  if (is_floating(constant.type)) {
    content = real_constant([numbers](std::span<double> out) {
      std::copy(numbers->begin(), numbers->end(), out.begin());
    });
  } else {
    content = integer_constant([numbers](std::span<std::int64_t> out) {
      std::transform(numbers->begin(), numbers->end(), out.begin(), to_integer);
    });
  }
  return graph_.constant("constants." + std::to_string(constants_++), graph_shape(constant.dims),
                         type, content);
}

/// A constant must not say how large the batch is.
TensorId OnnxImporter::shrunk_constant(const OnnxConstant& constant) {
  return constant_tensor(without_repeats(constant));
}

/// As it is kept; an input is made when something first reads it.
TensorId OnnxImporter::own_tensor(int id) {
  Value& v = value(id);
  if (v.finer != kNoIndex && v.tensor == kNoIndex)
    v.tensor = graph_.view(reader(), v.finer, graph_shape(v.dims));
  if (v.tensor == kNoIndex) {
    for (const OnnxInput& input : model_.inputs) {
      if (input.value == id) make_input(id);
    }
  }
  check(v.tensor != kNoIndex, "a value that is read is made");
  return v.tensor;
}

TensorId OnnxImporter::tensor(int id) {
  Value& v = value(id);
  operands_[now_].push_back(id);
  if (const ConstantRef constant = constant_of(id)) {
    if (constant->numbers.empty()) throw FoldError("reads a tensor without elements");
    if (v.tensor == kNoIndex) v.tensor = shrunk_constant(*constant);
  } else if (v.kind == Value::Kind::kInitializer) {
    const bool turned = !uses_[v.initializer].as_is;
    TensorId given = parameter(v.initializer, turned);
    if (turned != v.transposed) given = graph_.permute("turned", given, {1, 0});
    return given;
  } else if (is_masked(id)) {
    return chosen(id);
  }
  return own_tensor(id);
}

/// Which dim of a value is the batch, as far as is known: the first.
std::size_t OnnxImporter::batch_axis(int id) const {
  if (wider_ == nullptr || wider_->empty()) return 0;
  const Dims &dims = values_[id].dims, &wider = (*wider_)[id];
  if (wider.size() != dims.size()) return 0;
  std::size_t axis = 0;
  while (axis < dims.size() && wider[axis] == dims[axis]) ++axis;
  return axis == dims.size() ? 0 : axis;
}

TensorId OnnxImporter::ones_of_batch(std::size_t dims, DType type, std::size_t axis) {
  if (ones_ == kNoIndex) ones_ = graph_.input("ones", {options_.microbatch, 1}, options_.compute);
  Shape shape(dims, 1);
  shape[axis] = options_.microbatch;
  const TensorId ones = graph_.view("ones", ones_, shape);
  return type == options_.compute ? ones : graph_.cast("ones", ones, type);
}

/// Times ones, of which the batch's are data, as all that has a row for every sample.
TensorId OnnxImporter::repeated(TensorId x, const Dims& dims, std::size_t batch_axis) {
  const Dims has = shape_dims(x);
  const std::size_t missing = dims.size() - has.size();
  OnnxConstant ones;
  const DType type = graph_.type(x);
  if (is_integer(type)) ones.type = type_of(type);
  ones.dims.assign(dims.size(), 1);
  bool batch = false, others = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t there = d < missing ? 1 : has[d - missing];
    if (there == dims[d]) continue;
    if (d == batch_axis && dims[d] == options_.microbatch) {
      batch = true;
    } else {
      ones.dims[d] = dims[d];
      others = true;
    }
  }
  if (others) {
    ones.numbers.assign(count_elements(ones.dims), 1);
    x = graph_.mul("repeated", x, constant_tensor(ones));
  }
  if (batch) x = graph_.mul("repeated", x, ones_of_batch(dims.size(), type, batch_axis));
  return x;
}

TensorId OnnxImporter::full_tensor(int id) {
  const TensorId x = tensor(id);
  const Dims& dims = dims_of(id);
  if (graph_.shape(x) == graph_shape(dims)) return x;
  const ConstantRef constant = constant_of(id);
  const std::size_t axis = batch_axis(id);
  const bool of_batch = !dims.empty() && dims[axis] == options_.microbatch && dims[axis] > 1;
  if (constant != nullptr && !of_batch) return constant_tensor(*constant);
  if (graph_.shape(x).size() < dims.size() || shape_dims(x) != dims) {
    TensorId all = repeated(x, dims, axis);
    // Dims of one element in front of its own are none yet.
    if (graph_.shape(all).size() < dims.size()) all = graph_.view(reader(), all, graph_shape(dims));
    if (constant == nullptr && value(id).kind == Value::Kind::kTensor)
      (is_masked(id) ? value(id).chosen : value(id).tensor) = all;
    return all;
  }
  return x;
}

/// In a batch of one sample, what has one row for all looks like what has one for each: beside data
/// it is the latter.
TensorId OnnxImporter::beside_data(int id) {
  const TensorId x = full_tensor(id);
  const Dims& dims = dims_of(id);
  const bool repeats = options_.microbatch == 1 && dims.size() > 1 && dims[0] == 1 &&
                       !is_of_data(id) && graph_.shape(x)[0] == 1;
  return repeats ? graph_.mul("repeated", x, ones_of_batch(dims.size(), graph_.type(x))) : x;
}

TensorId OnnxImporter::finer_tensor(int id) {
  const Value& v = value(id);
  if (v.kind != Value::Kind::kTensor || v.finer == kNoIndex) return full_tensor(id);
  operands_[now_].push_back(id);
  return v.finer;
}

TensorId OnnxImporter::rows(int id) {
  Value& v = value(id);
  if (v.kind == Value::Kind::kTensor && v.finer != kNoIndex && v.groups.back() > 1) {
    Dims dims = shape_dims(v.finer);
    dims.resize(dims.size() - v.groups.back());
    dims.push_back(v.dims.back());
    v.finer = graph_.view(reader(), v.finer, graph_shape(dims));
    v.groups.back() = 1;
  }
  return finer_tensor(id);
}

void OnnxImporter::set_finer(const OnnxNode& node, TensorId finer, Dims dims) {
  const Dims has = shape_dims(finer);
  if (has == dims) return set(node, finer, std::move(dims));
  if (refined_dims(has, dims) != has) throw FoldError("makes other dims than its operands say");
  set(node, kNoIndex, dims);
  Value& v = value(node.outputs[0]);
  hold(v, graph_.type(finer));
  v.finer = finer;
  v.groups = dim_groups(has, dims);
}

}  // namespace trainyard
