// GPT-2 and GPT-3: pre-LN decoder with learned positions (Radford et al. 2019, Brown et al. 2020;
// Hugging Face's GPT2LMHeadModel, Megatron-LM's GPTModel). And those that changed one thing or
// another of it: OPT; GPT-NeoX and Falcon, whose MLP reads what attention reads; MPT.
#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

TensorId gpt_embedding(ModelBuilder& m, TensorId table) {
  const TensorId tokens = token_input(m, "tokens", m.config.seq_len);
  const bool learned = m.config.positions == Positions::kLearned;
  const TensorId positions = learned ? token_input(m, "positions", m.config.seq_len) : kNoIndex;
  TensorId x = m.graph.embedding("embedding.tokens", tokens, table);
  if (learned) {
    const TensorId places =
        small_embedding(m, "embedding.positions", positions, m.config.max_positions);
    x = m.graph.add("embedding", x, places);
  }
  return m.graph.dropout("embedding", x, m.options.dropout);
}

TensorId gpt_norm(ModelBuilder& m, const std::string& module, TensorId x) {
  return m.config.norm_bias ? m.graph.layer_norm(module, x)
                            : m.graph.layer_norm_without_bias(module, x);
}

TensorId gpt_layer(ModelBuilder& m, std::int32_t index, TensorId x) {
  const std::string layer = "decoder.layers." + std::to_string(index);
  const Residual residual = m.config.residual;
  const TensorId normed = gpt_norm(m, layer + ".norm_1", x);
  const TensorId attended =
      self_attention(m, layer + ".attention", normed,
                     {.causal = true,
                      .layer = index,
                      .scaled = m.config.scaled_attention,
                      .divisor = m.config.layer_scaled_attention ? index + 1.0 : 1.0});
  const TensorId sum = add_residual(m, layer, layer + ".attention", x, attended);

  m.graph.next_sublayer();
  TensorId h = normed;
  if (residual != Residual::kParallelOneNorm)
    h = gpt_norm(m, layer + ".norm_2", residual == Residual::kSequential ? sum : x);
  h = mlp(m, layer + ".mlp", h);
  return add_residual(m, layer, layer + ".mlp", sum, h);
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
  x = gpt_norm(m, "decoder.final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
