// Llama 2 and 3, Mistral, Qwen 2 and 3, Phi-3, Gemma: pre-RMSNorm decoder with rotary positions,
// grouped-query attention and a gated MLP (Touvron et al. 2023; Hugging Face's LlamaForCausalLM and
// its relatives). No dropout anywhere.
#include <cmath>

#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

/// x + h, of which Gemma 2 normalises h first.
TensorId add_branch(ModelBuilder& m, const std::string& layer, const std::string& norm, TensorId x,
                    TensorId h) {
  if (m.config.branch_norms) h = m.graph.rms_norm(layer + norm, h);
  return m.graph.add(layer, x, h);
}

TensorId llama_layer(ModelBuilder& m, std::int32_t index, TensorId x) {
  const std::string layer = "decoder.layers." + std::to_string(index);
  TensorId h = m.graph.rms_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".attention", h, {.causal = true, .layer = index});
  x = add_branch(m, layer, ".post_norm_1", x, h);

  m.graph.next_sublayer();
  h = m.graph.rms_norm(layer + ".norm_2", x);
  h = mlp(m, layer + ".mlp", h);
  return add_branch(m, layer, ".post_norm_2", x, h);
}

}  // namespace

Graph build_llama(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId tokens = token_input(m, "tokens", config.seq_len);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x = m.graph.embedding("embedding.tokens", tokens, table);
  if (config.scaled_embedding)
    x = m.graph.affine("embedding", x, std::sqrt(static_cast<double>(config.hidden)));
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    x = llama_layer(m, i, x);
  }
  m.graph.set_layer(-1);
  x = m.graph.rms_norm("decoder.final_norm", x);
  return m.graph.finish(language_model_loss(m, x, table));
}

}  // namespace trainyard
