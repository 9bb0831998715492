// Llama 2 and 3, Mistral, Qwen2: pre-RMSNorm decoder with rotary positions, grouped-query attention
// and a gated MLP (Touvron et al. 2023; Hugging Face's LlamaForCausalLM and its relatives). No
// dropout anywhere.
#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

TensorId llama_layer(ModelBuilder& m, const std::string& layer, TensorId x) {
  TensorId h = m.graph.rms_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".attention", h, {.causal = true, .rope = true});
  x = m.graph.add(layer, x, h);

  m.graph.next_sublayer();
  h = m.graph.rms_norm(layer + ".norm_2", x);
  h = mlp(m, layer + ".mlp", h);
  return m.graph.add(layer, x, h);
}

}  // namespace

Graph build_llama(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId tokens = token_input(m, "tokens", config.seq_len);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x = m.graph.embedding("embedding.tokens", tokens, table);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    x = llama_layer(m, "decoder.layers." + std::to_string(i), x);
  }
  m.graph.set_layer(-1);
  x = m.graph.rms_norm("decoder.final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
