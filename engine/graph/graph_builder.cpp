#include "engine/graph/graph_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/model_flop.h"

namespace trainyard {

namespace {

/// Attributes of an op on q, k and v in one tensor.
OpAttrs packed_heads(const AttentionShape& attention) {
  OpAttrs attrs;
  attrs.heads = attention.heads;
  attrs.kv_heads = attention.kv_heads;
  attrs.head_dim = attention.head_dim;
  attrs.packed = true;
  return attrs;
}

Shape with_last(Shape shape, std::int64_t size) {
  shape.back() = size;
  return shape;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, DType compute) : compute_(compute) {
  graph_.name = std::move(name);
}

void GraphBuilder::reserve(std::size_t ops, std::size_t parameters) {
  graph_.ops.reserve(ops);
  graph_.parameters.reserve(parameters);
  graph_.tensors.reserve(ops + ops / 8 + parameters);
}

void GraphBuilder::set_layer(std::int32_t layer) {
  if (layer == layer_) return;
  layer_ = layer;
  sublayer_ = 0;
  module_indices_.clear();
}

TensorId GraphBuilder::input(std::string_view name, const Shape& shape, DType dtype) {
  return input_tensor(name, shape, dtype, false);
}

TensorId GraphBuilder::constant(std::string_view name, const Shape& shape, DType dtype,
                                Constant content) {
  if (content) graph_.constants.emplace(name, std::move(content));
  return input_tensor(name, shape, dtype, true);
}

TensorId GraphBuilder::input_tensor(std::string_view name, const Shape& shape, DType dtype,
                                    bool constant) {
  Tensor tensor;
  tensor.constant = constant;
  tensor.name = name;
  tensor.shape = shape;
  tensor.dtype = dtype;
  tensor.role = TensorRole::kInput;
  return add_tensor(std::move(tensor));
}

TensorId GraphBuilder::parameter(std::string_view name, const Shape& shape, SplitHint split,
                                 bool decay, std::int64_t padded_rows, const ParameterForm& form) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.padded = shape;
  if (padded_rows > shape.front()) parameter.padded.front() = padded_rows;
  parameter.split = split;
  parameter.head = head_;
  parameter.decay = decay;
  parameter.momentum = static_cast<float>(form.momentum);
  parameter.init = form.init;
  parameter.deviation = static_cast<float>(form.deviation);
  parameter.parts = form.parts;

  Tensor tensor;
  tensor.name = name;
  tensor.shape = parameter.padded;
  tensor.dtype = compute_;
  tensor.role = TensorRole::kParameter;
  tensor.parameter = graph_.parameters.next();
  tensor.needs_gradient = true;
  parameter.tensor = add_tensor(std::move(tensor));
  graph_.parameters.push_back(std::move(parameter));
  return graph_.parameters.back().tensor;
}

void GraphBuilder::unused_parameter(std::string_view name, const Shape& shape) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.padded = shape;
  parameter.head = head_;
  graph_.parameters.push_back(std::move(parameter));
}

TensorId GraphBuilder::embedding(std::string_view module, TensorId tokens, TensorId table) {
  Shape output = shape(tokens);
  output.push_back(shape(table).back());
  return add_op(module, OpKind::kEmbedding, {}, {tokens, table}, output,
                graph_.tensors[table].dtype);
}

TensorId GraphBuilder::linear(std::string_view module, TensorId x, std::int64_t out, bool bias,
                              SplitHint split, const ParameterForm& form) {
  const std::string name(module);
  const TensorId w =
      parameter(name + ".weight", {out, shape(x).back()}, split, /*decay=*/true, 0, form);
  TensorId b = kNoIndex;
  if (bias) {
    // Split by input features, every rank holds a partial sum of all outputs: the bias stays whole.
    const SplitHint bias_split = split == SplitHint::kRow ? SplitHint::kNone : split;
    b = add_bias(name, out, form, bias_split);
  }
  OpAttrs attrs;
  attrs.has_bias = bias;
  return add_op(module, OpKind::kLinear, attrs, {x, w, b}, with_last(shape(x), out), compute_);
}

TensorId GraphBuilder::lm_head(std::string_view module, TensorId x, TensorId table, TensorId bias,
                               double scale) {
  OpAttrs attrs;
  attrs.has_bias = bias != kNoIndex;
  attrs.scale = static_cast<float>(scale);
  const Shape logits = with_last(shape(x), shape(table).front());
  return add_op(module, OpKind::kLinear, attrs, {x, table, bias}, logits, compute_);
}

TensorId GraphBuilder::layer_norm(std::string_view module, TensorId x) {
  const std::string name(module);
  const std::int64_t features = shape(x).back();
  const TensorId w = norm_weight(name, features);
  return layer_norm(module, x, {w, zero_bias(name, features)});
}

TensorId GraphBuilder::layer_norm_without_bias(std::string_view module, TensorId x) {
  return layer_norm(module, x, {norm_weight(std::string(module), shape(x).back())});
}

TensorId GraphBuilder::layer_norm(std::string_view module, TensorId x, const WeightAndBias& given) {
  return norm(module, OpKind::kLayerNorm, x, given, /*num_statistics=*/2);  // mean, 1 / deviation
}

TensorId GraphBuilder::rms_norm(std::string_view module, TensorId x) {
  return rms_norm(module, x, {norm_weight(std::string(module), shape(x).back(), norm_shift_)});
}

TensorId GraphBuilder::rms_norm(std::string_view module, TensorId x, const WeightAndBias& given) {
  return norm(module, OpKind::kRmsNorm, x, given, /*num_statistics=*/1);  // 1 / root mean square
}

TensorId GraphBuilder::rms_norm_of_groups(std::string_view module, TensorId x,
                                          std::int64_t groups) {
  const WeightAndBias given{norm_weight(std::string(module), shape(x).back(), norm_shift_)};
  if (groups == 1) return rms_norm(module, x, given);
  const TensorId y = norm(module, OpKind::kRmsNorm, x, given, groups);
  graph_.ops.back().attrs.set(&OpAttrs::groups, static_cast<std::int32_t>(groups));
  return y;
}

TensorId GraphBuilder::norm_weight(const std::string& module, std::int64_t features, double shift) {
  return parameter(module + ".weight", {features}, SplitHint::kNone, /*decay=*/false, 0,
                   {.init = shift == 0 ? Init::kOnes : Init::kZeros});
}

TensorId GraphBuilder::zero_bias(const std::string& module, std::int64_t features) {
  return add_bias(module, features, {});
}

TensorId GraphBuilder::add_bias(const std::string& module, std::int64_t features,
                                const ParameterForm& form, SplitHint split) {
  ParameterForm own{.init = form.bias, .deviation = form.bias_deviation, .parts = form.parts};
  for (ParameterPart& part : own.parts) part.deviation = static_cast<float>(form.bias_deviation);
  return parameter(module + ".bias", {features}, split, /*decay=*/false, 0, own);
}

void GraphBuilder::add_saved_result(std::string name, const Shape& shape, DType dtype) {
  Tensor saved;
  saved.name = std::move(name);
  saved.shape = shape;
  saved.dtype = dtype;
  saved.producer = OpId(graph_.ops.size() - 1);
  graph_.ops.back().outputs.push_back(add_tensor(std::move(saved)));
}

TensorId GraphBuilder::norm(std::string_view module, OpKind kind, TensorId x,
                            const WeightAndBias& given, std::int64_t num_statistics) {
  OpAttrs attrs;
  attrs.eps = static_cast<float>(norm_eps_);
  if (kind == OpKind::kRmsNorm) attrs.shift = static_cast<float>(norm_shift_);
  attrs.unbiased = kind == OpKind::kLayerNorm && given.bias == kNoIndex;
  const TensorId y = add_op(module, kind, attrs, {x, given.weight, given.bias}, shape(x), compute_);
  add_saved_result(std::string(module) + ".statistics", with_last(shape(x), num_statistics),
                   accumulation_type(compute_));
  return y;
}

TensorId GraphBuilder::attention(std::string_view module, TensorId qkv,
                                 const AttentionShape& attention, TensorId mask, TensorId bias) {
  return attention_op(module, qkv, /*kv=*/kNoIndex, attention, mask, bias);
}

TensorId GraphBuilder::cross_attention(std::string_view module, TensorId q, TensorId kv,
                                       const AttentionShape& attention, TensorId mask,
                                       TensorId bias) {
  return attention_op(module, q, kv, attention, mask, bias);
}

TensorId GraphBuilder::attention_op(std::string_view module, TensorId q, TensorId kv,
                                    const AttentionShape& attention, TensorId mask, TensorId bias) {
  OpAttrs attrs;
  attrs.heads = attention.heads;
  attrs.kv_heads = attention.kv_heads;
  attrs.head_dim = attention.head_dim;
  attrs.packed = kv == kNoIndex;
  attrs.causal = attention.causal;
  attrs.has_mask = mask != kNoIndex;
  attrs.has_bias = bias != kNoIndex;
  attrs.rate = static_cast<float>(attention.dropout);
  if (attrs.rate > 0) attrs.draw = next_draw(module, OpKind::kAttention);
  const double root = attention.scaled ? std::sqrt(attention.head_dim) : 1;
  attrs.scale = static_cast<float>(1.0 / (root * attention.divisor));
  // A window as long as the keys hides none of them.
  const std::int64_t key_length = shape(kv == kNoIndex ? q : kv)[1];
  if (attention.attended < key_length)
    attrs.attended = static_cast<std::int32_t>(attention.attended);
  attrs.softcap = static_cast<float>(attention.softcap);
  attrs.alibi = static_cast<float>(attention.alibi);

  const Shape& queries = shape(q);
  const std::int64_t width = std::int64_t{attention.heads} * attention.head_dim;
  return add_op(module, OpKind::kAttention, attrs, {q, kv, mask, bias}, with_last(queries, width),
                compute_);
}

TensorId GraphBuilder::relative_bias(std::string_view module, TensorId table,
                                     std::int64_t query_length, std::int64_t key_length,
                                     bool causal) {
  OpAttrs attrs;
  attrs.heads = static_cast<std::int32_t>(shape(table).back());
  attrs.causal = causal;
  return add_op(module, OpKind::kRelativeBias, attrs, {table},
                {shape(table).back(), query_length, key_length}, compute_);
}

TensorId GraphBuilder::rope(std::string_view module, TensorId qkv,
                            const AttentionShape& attention) {
  OpAttrs attrs = packed_heads(attention);
  attrs.rope_base = static_cast<float>(attention.rope_base);
  if (attention.rotary < attention.head_dim)
    attrs.rotary = static_cast<std::int32_t>(attention.rotary);
  attrs.rope_scaling = attention.rope_scaling;
  return add_op(module, OpKind::kRope, attrs, {qkv}, shape(qkv), compute_);
}

TensorId GraphBuilder::head_norm(std::string_view module, TensorId qkv,
                                 const AttentionShape& attention) {
  OpAttrs attrs = packed_heads(attention);
  attrs.eps = static_cast<float>(norm_eps_);
  attrs.shift = static_cast<float>(norm_shift_);
  const std::string name(module);
  const TensorId q = norm_weight(name + ".q_norm", attention.head_dim, norm_shift_);
  const TensorId k = norm_weight(name + ".k_norm", attention.head_dim, norm_shift_);
  const TensorId y = add_op(module, OpKind::kHeadNorm, attrs, {qkv, q, k}, shape(qkv), compute_);
  const std::int64_t heads = std::int64_t{attention.heads} + attention.kv_heads;
  add_saved_result(name + ".head_norm.statistics", with_last(shape(qkv), heads),
                   accumulation_type(compute_));
  return y;
}

TensorId GraphBuilder::dropout(std::string_view module, TensorId x, double rate) {
  if (rate == 0) return x;
  OpAttrs attrs;
  attrs.rate = static_cast<float>(rate);
  attrs.draw = next_draw(module, OpKind::kDropout);
  return add_op(module, OpKind::kDropout, attrs, {x}, shape(x), compute_);
}

std::int32_t GraphBuilder::next_draw(std::string_view module, OpKind kind) {
  return num_draws_[{kind, std::string(module)}]++;
}

TensorId GraphBuilder::activation(std::string_view module, OpKind kind, TensorId x,
                                  bool tanh_gelu) {
  const bool is_gated = kind == OpKind::kSwiglu || kind == OpKind::kGeglu;
  OpAttrs attrs;
  attrs.tanh_gelu = tanh_gelu;
  const Shape& in = shape(x);
  return add_op(module, kind, attrs, {x}, is_gated ? with_last(in, in.back() / 2) : in, compute_);
}

TensorId GraphBuilder::select_first(std::string_view module, TensorId x) {
  return add_op(module, OpKind::kSelectFirst, {}, {x}, {shape(x).front(), shape(x).back()},
                compute_);
}

TensorId GraphBuilder::cross_entropy(std::string_view module, TensorId logits, TensorId labels,
                                     std::int64_t vocab, double weight) {
  OpAttrs attrs;
  attrs.scale = static_cast<float>(weight);
  attrs.vocab = static_cast<std::int32_t>(vocab > 0 ? vocab : shape(logits).back());
  return add_op(module, OpKind::kCrossEntropy, attrs, {logits, labels}, {1},
                accumulation_type(compute_));
}

const Shape& GraphBuilder::shape(TensorId tensor) const { return graph_.tensors[tensor].shape; }

Graph GraphBuilder::finish(TensorId loss) {
  graph_.loss = loss;
  graph_.model_flop_per_microbatch = model_flop(graph_);
  return std::move(graph_);
}

TensorId GraphBuilder::add_op(std::string_view module, OpKind kind, const OpAttrs& attrs,
                              std::span<const TensorId> inputs, const Shape& output, DType dtype) {
  Op op;
  op.kind = kind;
  op.attrs = recent_attrs_.share(attrs);

  Tensor tensor;
  tensor.name = activation_name(module_index(module), kind);
  tensor.shape = output;
  tensor.dtype = dtype;
  tensor.producer = graph_.ops.next();
  for (const TensorId input : inputs) {
    if (input == kNoIndex) continue;
    op.inputs.push_back(input);
    tensor.needs_gradient |= graph_.tensors[input].needs_gradient;
  }
  const TensorId id = add_tensor(std::move(tensor));
  op.outputs.push_back(id);
  append(module, std::move(op));
  return id;
}

void GraphBuilder::append(std::string_view module, Op op) {
  op.module = module_index(module);
  op.layer = layer_;
  op.sublayer = sublayer_;
  graph_.ops.push_back(std::move(op));
  if (layer_ >= graph_.num_layers) graph_.num_layers = layer_ + 1;
}

TensorId GraphBuilder::add_tensor(Tensor tensor) { return graph_.tensors.add(std::move(tensor)); }

PathId GraphBuilder::module_index(std::string_view module) {
  if (const auto known = module_indices_.find(module); known != module_indices_.end()) {
    return known->second;
  }
  const PathId index = graph_.modules.add(std::string(module));
  module_indices_.emplace(module, index);
  return index;
}

std::string GraphBuilder::activation_name(PathId module, OpKind kind) {
  std::string name = graph_.modules[module];
  name += '.';
  name += to_string(kind);
  if (!num_uses_.has(module)) num_uses_.resize(graph_.modules.size());
  auto& of_kinds = num_uses_[module];
  const auto known = std::find_if(of_kinds.begin(), of_kinds.end(),
                                  [&](const auto& one) { return one.first == kind; });
  if (known == of_kinds.end())
    of_kinds.emplace_back(kind, 1);
  else
    name += ":" + std::to_string(known->second++);
  return name;
}

}  // namespace trainyard
