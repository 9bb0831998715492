// GPT-2 and GPT-3: pre-LN decoder with learned positions (Radford et al. 2019, Brown et al. 2020;
// Hugging Face's GPT2LMHeadModel, Megatron-LM's GPTModel).
#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

TensorId gpt_embedding(ModelBuilder& m, TensorId table) {
  const TensorId tokens = token_input(m, "tokens", m.config.seq_len);
  const TensorId positions = token_input(m, "positions", m.config.seq_len);
  const TensorId words = m.graph.embedding("embedding.tokens", tokens, table);
  const TensorId places =
      small_embedding(m, "embedding.positions", positions, m.config.max_positions);
  const TensorId sum = m.graph.add("embedding", words, places);
  return m.graph.dropout("embedding", sum, m.options.dropout);
}

TensorId gpt_layer(ModelBuilder& m, std::int32_t index, TensorId x) {
  const std::string layer = "decoder.layers." + std::to_string(index);
  TensorId h = m.graph.layer_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".attention", h,
                     {.causal = true,
                      .scaled = m.config.scaled_attention,
                      .divisor = m.config.layer_scaled_attention ? index + 1.0 : 1.0});
  x = add_residual(m, layer, layer + ".attention", x, h);

  m.graph.next_sublayer();
  h = m.graph.layer_norm(layer + ".norm_2", x);
  h = mlp(m, layer + ".mlp", h);
  return add_residual(m, layer, layer + ".mlp", x, h);
}

}  // namespace

Graph build_gpt(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x = gpt_embedding(m, table);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    x = gpt_layer(m, i, x);
  }
  m.graph.set_layer(-1);
  x = m.graph.layer_norm("decoder.final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
