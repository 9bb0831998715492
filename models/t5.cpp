// T5: pre-RMSNorm encoder and decoder with relative score biases (Raffel et al. 2020; Hugging
// Face's T5ForConditionalGeneration, versions 1.0 and 1.1).
//
// The first layer of each stack owns the stack's relative bias table and computes the bias once;
// all its layers read it. Cross-attention has none. Nothing has a linear bias, and scores are not
// scaled (the initialisation does that).
#include <cmath>

#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

TensorId stack_bias(ModelBuilder& m, const std::string& stack, std::int64_t length, bool causal) {
  const std::string module = stack + ".layers.0.self_attention.relative_bias";
  const TensorId table = m.graph.parameter(
      module + ".weight", {m.config.relative_buckets, m.config.heads}, SplitHint::kHeads,
      /*decay=*/true, 0, {.deviation = input_deviation(m.config)});
  return m.graph.relative_bias(module, table, length, length, causal);
}

TensorId t5_mlp(ModelBuilder& m, const std::string& layer, const std::string& norm, TensorId x) {
  m.graph.next_sublayer();
  TensorId h = m.graph.rms_norm(layer + norm, x);
  h = mlp(m, layer + ".mlp", h, m.options.dropout);
  return add_residual(m, layer, layer + ".mlp", x, h);
}

TensorId encoder_layer(ModelBuilder& m, const std::string& layer, TensorId x, TensorId mask,
                       TensorId bias) {
  TensorId h = m.graph.rms_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".self_attention", h,
                     {.scaled = false, .mask = mask, .bias = bias});
  x = add_residual(m, layer, layer + ".self_attention", x, h);
  return t5_mlp(m, layer, ".norm_2", x);
}

/// Queries from the decoder, keys and values (one fused projection) from the encoder's output.
TensorId cross_attention(ModelBuilder& m, const std::string& module, TensorId x, TensorId encoded,
                         TensorId mask) {
  const ModelConfig& config = m.config;
  const std::int64_t width = config.heads * config.head_dim;
  const auto [q_deviation, k_deviation, v_deviation] = query_key_value_deviation(config);
  const TensorId q = m.graph.linear(module + ".q", x, width, config.qkv_bias, SplitHint::kColumn,
                                    {.deviation = q_deviation});
  const TensorId kv =
      m.graph.linear(module + ".kv", encoded, 2 * width, config.qkv_bias, SplitHint::kColumn,
                     {.parts = {{"k", width, k_deviation}, {"v", width, v_deviation}}});
  const TensorId context = m.graph.cross_attention(
      module, q, kv, attention_shape(m, /*causal=*/false, /*scaled=*/false), mask);
  return m.graph.linear(module + ".proj", context, config.hidden, config.linear_bias,
                        SplitHint::kRow, {.deviation = output_deviation(config, width)});
}

TensorId decoder_layer(ModelBuilder& m, const std::string& layer, TensorId x, TensorId encoded,
                       TensorId mask, TensorId bias) {
  TensorId h = m.graph.rms_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".self_attention", h,
                     {.causal = true, .scaled = false, .bias = bias});
  x = add_residual(m, layer, layer + ".self_attention", x, h);

  m.graph.next_sublayer();
  h = m.graph.rms_norm(layer + ".norm_2", x);
  h = cross_attention(m, layer + ".cross_attention", h, encoded, mask);
  x = add_residual(m, layer, layer + ".cross_attention", x, h);
  return t5_mlp(m, layer, ".norm_3", x);
}

TensorId build_encoder(ModelBuilder& m, TensorId table, TensorId mask) {
  const double dropout = m.options.dropout;
  const TensorId tokens = token_input(m, "tokens", m.config.seq_len);
  TensorId x = m.graph.embedding("embedding.tokens", tokens, table);
  x = m.graph.dropout("embedding", x, dropout);
  TensorId bias = kNoIndex;
  for (std::int32_t i = 0; i < m.config.layers; ++i) {
    m.graph.set_layer(i);
    if (i == 0) bias = stack_bias(m, "encoder", m.config.seq_len, /*causal=*/false);
    x = encoder_layer(m, "encoder.layers." + std::to_string(i), x, mask, bias);
  }
  // Still of the last encoder layer: the stage that ends the encoder sends its final output.
  x = m.graph.rms_norm("encoder.final_norm", x);
  return m.graph.dropout("encoder", x, dropout);
}

/// Its embedding belongs to its first layer, so that a stage that starts the decoder has all it
/// needs.
TensorId build_decoder(ModelBuilder& m, TensorId table, TensorId encoded, TensorId mask) {
  const auto first_layer = static_cast<std::int32_t>(m.config.layers);
  const std::int64_t length = m.config.decoder_seq_len;
  const double dropout = m.options.dropout;
  m.graph.set_layer(first_layer);
  const TensorId tokens = token_input(m, "decoder_tokens", length);
  TensorId x = m.graph.embedding("decoder.embedding.tokens", tokens, table);
  x = m.graph.dropout("decoder.embedding", x, dropout);
  const TensorId bias = stack_bias(m, "decoder", length, /*causal=*/true);
  for (std::int32_t i = 0; i < m.config.decoder_layers; ++i) {
    m.graph.set_layer(first_layer + i);
    x = decoder_layer(m, "decoder.layers." + std::to_string(i), x, encoded, mask, bias);
  }
  m.graph.set_layer(-1);
  x = m.graph.rms_norm("decoder.final_norm", x);
  return m.graph.dropout("decoder", x, dropout);
}

}  // namespace

Graph build_t5(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  const TensorId mask = m.graph.input("mask", {options.microbatch, config.seq_len}, DType::kUint8);
  const TensorId encoded = build_encoder(m, table, mask);
  const TensorId x = build_decoder(m, table, encoded, mask);
  // A table that serves as LM head too is scaled down on the way out.
  const double scale =
      config.tied_embeddings ? 1.0 / std::sqrt(static_cast<double>(config.hidden)) : 1.0;
  return m.graph.finish(language_model_loss(m, x, table, scale));
}

}  // namespace trainyard
