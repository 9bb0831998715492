#include "models/blocks.h"

#include <cmath>

#include "models/parameter_forms.h"

namespace trainyard {

namespace {

struct ActivationOp {
  OpKind kind;
  bool tanh_gelu;
  bool gated;  // reads [gate up], twice as wide as what it writes
};

ActivationOp activation_op(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return {OpKind::kGelu, false, false};
    case Activation::kGeluTanh: return {OpKind::kGelu, true, false};
    case Activation::kRelu: return {OpKind::kRelu, false, false};
    case Activation::kSwiglu: return {OpKind::kSwiglu, false, true};
    case Activation::kGeglu: return {OpKind::kGeglu, true, true};  // T5 1.1's gelu_new, Gemma's
  }
  return {OpKind::kGelu, false, false};
}

constexpr double kUsualDeviation = 0.02;  // Radford et al. 2019; Devlin et al. 2019; Hugging Face's

}  // namespace

double input_deviation(const ModelConfig& config) {
  if (config.family != Family::kT5) return kUsualDeviation;
  return 1.0 / std::sqrt(static_cast<double>(config.hidden));
}

double output_deviation(const ModelConfig& config, std::int64_t width) {
  if (config.family == Family::kT5) return 1.0 / std::sqrt(static_cast<double>(width));
  if (config.family != Family::kGpt) return kUsualDeviation;
  return kUsualDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

std::array<float, 3> query_key_value_deviation(const ModelConfig& config) {
  const auto usual = static_cast<float>(input_deviation(config));
  if (config.family != Family::kT5) return {usual, usual, usual};
  // T5 does not scale its scores: the queries start smaller instead.
  const auto query = usual / std::sqrt(static_cast<float>(config.head_dim));
  return {query, usual, usual};
}

double linear_deviation(std::int64_t features) {
  return 1 / std::sqrt(3 * static_cast<double>(features));
}

TensorId token_input(ModelBuilder& m, std::string_view name, std::int64_t length) {
  return m.graph.input(name, {m.options.microbatch, length}, DType::kInt64);
}

TensorId vocabulary_table(ModelBuilder& m, std::string_view name) {
  // T5's rows are of unit variance; its LM head scales them down on the way out.
  const double deviation = m.config.family == Family::kT5 ? 1.0 : kUsualDeviation;
  return m.graph.parameter(name, {m.config.vocab, m.config.hidden}, SplitHint::kVocabulary,
                           /*decay=*/true, m.config.pad_vocab_to, {.deviation = deviation});
}

TensorId small_embedding(ModelBuilder& m, std::string_view module, TensorId ids,
                         std::int64_t rows) {
  const TensorId table =
      m.graph.parameter(std::string(module) + ".weight", {rows, m.config.hidden});
  return m.graph.embedding(module, ids, table);
}

AttentionShape attention_shape(const ModelBuilder& m, bool causal, bool scaled) {
  const ModelConfig& c = m.config;
  RopeScaling scaling;
  if (c.rope_factor != 1) {
    scaling = {.factor = static_cast<float>(c.rope_factor),
               .low = static_cast<float>(c.rope_low),
               .high = static_cast<float>(c.rope_high),
               .original = static_cast<std::int32_t>(c.rope_original)};
  }
  return {.heads = static_cast<std::int32_t>(c.heads),
          .kv_heads = static_cast<std::int32_t>(c.kv_heads),
          .head_dim = static_cast<std::int32_t>(c.head_dim),
          .causal = causal,
          .dropout = m.options.dropout,
          .scaled = scaled,
          .rope_base = c.rope_base,
          .softcap = c.score_cap,
          .rotary = c.rotary_dim,
          .rope_scaling = scaling};
}

namespace {

/// How often ALiBi's slopes count.
double alibi_factor(const ModelConfig& config) {
  if (config.positions == Positions::kAlibi) return 1;
  if (config.positions != Positions::kScaledAlibi) return 0;
  return 1 / std::sqrt(static_cast<double>(config.head_dim));
}

AttentionShape shape_of(const ModelBuilder& m, const SelfAttention& how) {
  const ModelConfig& config = m.config;
  AttentionShape shape = attention_shape(m, how.causal, how.scaled);
  shape.divisor = how.divisor;
  if (config.query_scalar > 0) {
    shape.scaled = false;
    shape.divisor *= std::sqrt(config.query_scalar);
  }
  shape.alibi = alibi_factor(config);
  if (how.layer >= 0 && has_window(config, how.layer)) shape.attended = config.attention_window;
  return shape;
}

/// As torchvision's MultiheadAttention starts: as one weight of three outputs.
ParameterForm query_key_value_form(const ModelConfig& config) {
  auto [q, k, v] = query_key_value_deviation(config);
  ParameterForm form;
  if (config.family == Family::kVit) {
    form = xavier_uniform(config.hidden, 3 * config.hidden);
    q = k = v = static_cast<float>(form.deviation);
  }
  const std::int64_t kv_width = config.kv_heads * config.head_dim;
  form.parts = {{"q", config.heads * config.head_dim, q}, {"k", kv_width, k}, {"v", kv_width, v}};
  return form;
}

ParameterForm attention_output_form(const ModelConfig& config) {
  const std::int64_t width = config.heads * config.head_dim;
  if (config.family != Family::kVit) return {.deviation = output_deviation(config, width)};
  ParameterForm form = uniform_by_fan_in(width);
  form.bias = Init::kZeros;
  return form;
}

/// Both weights of torchvision's MLP start alike.
ParameterForm vit_mlp_form(const ModelConfig& config) {
  ParameterForm form = xavier_uniform(config.hidden, config.ffn);
  form.bias = Init::kNormal;
  form.bias_deviation = 1e-6;
  return form;
}

}  // namespace

TensorId self_attention(ModelBuilder& m, const std::string& module, TensorId x,
                        const SelfAttention& how) {
  const ModelConfig& config = m.config;
  const AttentionShape shape = shape_of(m, how);
  const std::int64_t qkv_width = (config.heads + 2 * config.kv_heads) * config.head_dim;
  TensorId qkv = m.graph.linear(module + ".qkv", x, qkv_width, config.qkv_bias, SplitHint::kColumn,
                                query_key_value_form(config));
  if (config.head_norm) qkv = m.graph.head_norm(module, qkv, shape);
  if (is_rotary(config)) qkv = m.graph.rope(module, qkv, shape);
  const TensorId context = m.graph.attention(module, qkv, shape, how.mask, how.bias);
  return m.graph.linear(module + ".proj", context, config.hidden, config.linear_bias,
                        SplitHint::kRow, attention_output_form(config));
}

TensorId mlp(ModelBuilder& m, const std::string& module, TensorId x, double inner_dropout) {
  const ModelConfig& config = m.config;
  const ActivationOp op = activation_op(config.activation);
  const std::string up = op.gated ? ".gate_up" : ".fc1";
  const std::string down = op.gated ? ".down" : ".fc2";
  const bool is_vit = config.family == Family::kVit;
  ParameterForm form =
      is_vit ? vit_mlp_form(config) : ParameterForm{.deviation = input_deviation(config)};
  const auto narrow = static_cast<float>(form.deviation);
  if (op.gated) form.parts = {{"gate", config.ffn, narrow}, {"up", config.ffn, narrow}};
  TensorId h = m.graph.linear(module + up, x, op.gated ? 2 * config.ffn : config.ffn,
                              config.linear_bias, SplitHint::kColumn, form);
  h = m.graph.activation(module, op.kind, h, op.tanh_gelu);
  h = m.graph.dropout(module, h, inner_dropout);
  if (!is_vit) form = {.deviation = output_deviation(config, config.ffn)};
  return m.graph.linear(module + down, h, config.hidden, config.linear_bias, SplitHint::kRow, form);
}

TensorId add_residual(ModelBuilder& m, const std::string& layer, const std::string& module,
                      TensorId residual, TensorId branch) {
  return m.graph.add(layer, residual, m.graph.dropout(module, branch, m.options.dropout));
}

TensorId output_table(ModelBuilder& m, std::string_view name, TensorId tokens) {
  if (m.config.tied_embeddings) return tokens;
  m.graph.set_head(true);
  const TensorId table = vocabulary_table(m, name);
  m.graph.set_head(false);
  return table;
}

TensorId language_model_loss(ModelBuilder& m, TensorId x, TensorId tokens, double scale) {
  const TensorId table = output_table(m, "lm_head.weight", tokens);
  const double cap = m.config.logit_cap;
  if (cap > 0) scale /= cap;
  TensorId logits = m.graph.lm_head("lm_head", x, table, /*bias=*/kNoIndex, scale);
  if (cap > 0) {
    logits = m.graph.activation("lm_head", OpKind::kTanh, logits);
    logits = m.graph.affine("lm_head", logits, cap);
  }
  const TensorId labels = token_input(m, "labels", m.graph.shape(x)[1]);
  return m.graph.cross_entropy("loss", logits, labels, m.config.vocab);
}

}  // namespace trainyard
