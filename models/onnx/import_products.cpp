// Nodes that multiply matrices, and norms over features.
#include <algorithm>

#include "models/onnx/importer.h"

namespace trainyard {

/// Where only an Add of a bias reads the product, the bias, and the Add.
std::pair<TensorId, const OnnxNode*> OnnxImporter::bias_behind(const OnnxNode& node,
                                                               std::int64_t features) {
  const auto& readers = readers_[node.outputs[0]];
  if (readers.size() != 1 || is_output(node.outputs[0])) return {kNoIndex, nullptr};
  const OnnxNode& next = model_.nodes[readers[0]];
  if (next.op != "Add" || next.inputs.size() != 2) return {kNoIndex, nullptr};
  const int other = next.inputs[next.inputs[0] == node.outputs[0] ? 1 : 0];
  if (other == kNoOnnxValue) return {kNoIndex, nullptr};
  const Value& v = value(other);
  const bool fits = v.kind == Value::Kind::kInitializer && !v.transposed &&
                    v.dims == Dims{features} && is_parameter(v.initializer);
  if (!fits) return {kNoIndex, nullptr};
  merged_[readers[0]] = true;
  operands_[now_].push_back(node.outputs[0]);
  return {parameter(v.initializer, false), &next};
}

void OnnxImporter::linear(const OnnxNode& node, TensorId x, int index, bool transposed, Dims dims) {
  const bool turned = !uses_[index].as_is;
  const TensorId w = parameter(index, turned);
  const std::string& where = module(node);
  if (turned != transposed) {  // other nodes read it as it is: multiplied as data is
    const Dims has = shape_dims(x);
    std::int64_t rows = 1;
    for (std::size_t d = 0; d + 1 < has.size(); ++d) rows *= has[d];
    const TensorId a = graph_.view(where, x, {1, rows, has.back()});
    const TensorId b = graph_.view(where, w, {1, has.back(), dims.back()});
    return set(node, viewed(node, graph_.bmm(where, a, b), dims), dims);
  }
  const auto [bias, add] = bias_behind(node, dims.back());
  const TensorId y = graph_.lm_head(where, x, w, bias);
  set_finer(node, y, dims);
  if (add != nullptr) set_finer(*add, y, dims);
}

void OnnxImporter::matmul(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  const Dims& x = dims_of(a);
  const Dims& w = dims_of(b);
  if (x.empty() || w.empty()) throw FoldError("multiplies single numbers");
  if (x.size() < 2 || w.size() < 2) return with_vector(node);
  if (x.back() != w[w.size() - 2])
    throw FoldError("multiplies " + std::to_string(x.back()) + " columns by " +
                    std::to_string(w[w.size() - 2]) + " rows");
  const Value& right = value(b);
  const bool weight = right.kind == Value::Kind::kInitializer && right.dims.size() == 2 &&
                      is_parameter(right.initializer);
  if (!weight) return batched(node);
  Dims dims = x;
  dims.back() = w.back();
  linear(node, rows(a), right.initializer, !right.transposed, dims);
}

/// With a vector, a row on the left or a column on the right: multiplied element by element and
/// summed, as much memory as products. One that is data would be of samples.
void OnnxImporter::with_vector(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  const Dims x = dims_of(a), w = dims_of(b);
  if ((x.size() < 2 && is_of_data(a)) || (w.size() < 2 && is_of_data(b)) || w.size() > 2)
    throw FoldError(
        "multiplies a vector of samples, or by several matrices, which is not modelled");
  if (x.back() != w[0])
    throw FoldError("multiplies " + std::to_string(x.back()) + " columns by " +
                    std::to_string(w[0]) + " rows");
  const std::string& where = module(node);
  const bool column = w.size() == 1;
  const TensorId left = column ? full_tensor(a) : viewed(node, full_tensor(a), {w[0], 1});
  const TensorId all = graph_.mul(where, left, full_tensor(b));
  const Dims dims = column ? Dims(x.begin(), x.end() - 1) : Dims{w[1]};
  const int summed = column ? static_cast<int>(x.size()) - 1 : 0;
  set(node, viewed(node, graph_.sum(where, all, {summed}, false), dims), dims);
}

/// Products of matrices in all but the last two dims.
void OnnxImporter::batched(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  const bool several = std::max(dims_of(a).size(), dims_of(b).size()) > 2;
  TensorId x = several && is_of_data(b) ? beside_data(a) : full_tensor(a);
  TensorId y = several && is_of_data(a) ? beside_data(b) : full_tensor(b);
  const Dims of_x = dims_of(a), of_y = dims_of(b);
  const Dims outer = broadcast_dims({of_x.begin(), of_x.end() - 2}, {of_y.begin(), of_y.end() - 2});
  const auto with = [&](const Dims& dims) {
    Dims all = outer;
    all.insert(all.end(), dims.end() - 2, dims.end());
    return all;
  };
  if (with(of_x) != shape_dims(x)) x = repeated(x, with(of_x));
  if (with(of_y) != shape_dims(y)) y = repeated(y, with(of_y));
  Dims dims = outer;
  dims.insert(dims.end(), {of_x[of_x.size() - 2], of_y.back()});
  const std::string& where = module(node);
  if (!outer.empty()) return set(node, graph_.bmm(where, x, y), dims);
  x = graph_.view(where, x, {1, of_x[0], of_x[1]});
  y = graph_.view(where, y, {1, of_y[0], of_y[1]});
  set(node, viewed(node, graph_.bmm(where, x, y), dims), dims);
}

/// alpha a b + beta c of whatever they are.
void OnnxImporter::gemm_of_data(const OnnxNode& node) {
  const std::string& where = module(node);
  const auto matrix = [&](std::size_t i, const char* turned) {
    const int id = in(node, i);
    if (dims_of(id).size() != 2) throw FoldError("multiplies what are no matrices");
    const TensorId x = full_tensor(id);
    return node.integer(turned, 0) != 0 ? graph_.permute(where, x, {1, 0}) : x;
  };
  const TensorId a = matrix(0, "transA"), b = matrix(1, "transB");
  const Dims of_a = shape_dims(a), of_b = shape_dims(b), dims{of_a[0], of_b[1]};
  if (of_a[1] != of_b[0]) throw FoldError("multiplies matrices that do not fit");
  TensorId y = graph_.bmm(where, graph_.view(where, a, {1, of_a[0], of_a[1]}),
                          graph_.view(where, b, {1, of_b[0], of_b[1]}));
  y = viewed(node, y, dims);
  const auto times = [&](TensorId x, const char* factor) {
    const double number = node.number(factor, 1);
    return number == 1 ? x : graph_.affine(where, x, number);
  };
  y = times(y, "alpha");
  if (has_input(node, 2)) y = graph_.add(where, y, times(tensor(node.inputs[2]), "beta"));
  set(node, y, dims);
}

void OnnxImporter::gemm(const OnnxNode& node) {
  const int a = in(node, 0), b = in(node, 1);
  const bool turn_a = node.integer("transA", 0) != 0, turn_b = node.integer("transB", 0) != 0;
  if (node.number("alpha", 1) != 1 || (has_input(node, 2) && node.number("beta", 1) != 1))
    return gemm_of_data(node);
  const std::string& where = module(node);
  const Value& right = value(b);
  if (right.kind != Value::Kind::kInitializer || right.dims.size() != 2 || right.transposed ||
      !is_parameter(right.initializer))
    return gemm_of_data(node);
  const Dims& of_a = dims_of(a);
  const std::int64_t rows_of_a = of_a.size() == 2 ? of_a[turn_a ? 1 : 0] : 0;
  TensorId x = turn_a ? graph_.permute(where, full_tensor(a), {1, 0}) : rows(a);
  const std::int64_t out = right.dims[turn_b ? 0 : 1];
  if (rows_of_a == 0 || graph_.shape(x).back() != right.dims[turn_b ? 1 : 0])
    throw FoldError("multiplies matrices that do not fit");
  const Dims dims{rows_of_a, out};
  const Value* c = has_input(node, 2) ? &value(node.inputs[2]) : nullptr;
  const bool own_bias = c != nullptr && c->kind == Value::Kind::kInitializer &&
                        c->dims == Dims{out} && is_parameter(c->initializer);
  const bool turned = !uses_[right.initializer].as_is;
  if (turned == turn_b) {
    linear(node, x, right.initializer, !turn_b, dims);
    if (c != nullptr) {
      const TensorId y = rows(node.outputs[0]);
      set_finer(node, graph_.add(where, y, tensor(node.inputs[2])), dims);
    }
    return;
  }
  const TensorId w = parameter(right.initializer, turned);
  TensorId bias = own_bias ? parameter(c->initializer, false) : TensorId(kNoIndex);
  TensorId y = graph_.lm_head(where, x, w, bias);
  if (c != nullptr && !own_bias) y = graph_.add(where, y, tensor(node.inputs[2]));
  set_finer(node, y, dims);
}

/// The norm's own kernel where weight and bias are parameters of one dim.
void OnnxImporter::norm(const OnnxNode& node) {
  const int id = in(node, 0), weight = in(node, 1);
  const Dims dims = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", -1), dims.size());
  const bool root = node.op == "RMSNormalization", biased = !root && has_input(node, 2);
  const bool own = is_own(weight) && (!biased || is_own(node.inputs[2]));
  if (axis + 1 != dims.size() || !own) return norm_in_steps(node, axis);
  graph_.set_norm_eps(node.number("epsilon", 1e-5));
  const TensorId x = full_tensor(id), w = tensor(weight);
  if (root) return set(node, graph_.rms_norm(module(node), x, {w}), dims);
  const TensorId b = biased ? tensor(node.inputs[2]) : TensorId(kNoIndex);
  set(node, graph_.layer_norm(module(node), x, {w, b}), dims);
}

/// Sums over the dims from `axis` on, and what follows from them element by element.
void OnnxImporter::norm_in_steps(const OnnxNode& node, std::size_t axis) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const std::string& where = module(node);
  DimList over;
  double elements = 1;
  for (std::size_t d = axis; d < dims.size(); ++d) {
    if (is_batch(id, d)) throw FoldError("norms over the batch, which is not modelled");
    over.push_back(static_cast<int>(d));
    elements *= static_cast<double>(dims[d]);
  }
  const auto mean = [&](TensorId of) {
    return graph_.affine(where, graph_.sum(where, of, over, /*keepdim=*/true), 1 / elements);
  };
  TensorId x = full_tensor(id);
  if (node.op != "RMSNormalization") x = graph_.sub(where, x, mean(x));
  const TensorId variance =
      graph_.affine(where, mean(graph_.power(where, x, 2)), 1, node.number("epsilon", 1e-5));
  TensorId y = graph_.mul(where, x, graph_.power(where, variance, -0.5));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!has_input(node, i)) continue;
    if (broadcast_dims(dims, dims_of(node.inputs[i])) != dims)
      throw FoldError("has a weight or bias of other dims than it norms over");
    const auto same = scalar(node.inputs[i]);
    if (same && *same == (i == 1 ? 1 : 0)) continue;
    const TensorId by = tensor(node.inputs[i]);
    y = i == 1 ? graph_.mul(where, y, by) : graph_.add(where, y, by);
  }
  set(node, y, dims);
}

}  // namespace trainyard
