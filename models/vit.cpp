// Vision transformer: patches of an image as tokens behind a class token, a pre-LN encoder, and a
// classifier over the class token (Dosovitskiy et al. 2020, arXiv:2010.11929; torchvision's
// VisionTransformer).

#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

/// [B, C, H, W] -> [B, 1 + patches, D].
TensorId vit_embedding(ModelBuilder& m) {
  const ModelConfig& config = m.config;
  const auto patch = static_cast<std::int32_t>(config.patch_size);
  TensorId x = m.graph.conv2d("embedding.patches", image_input(m), config.hidden,
                              {.window = {patch, patch}, .stride = {patch, patch}, .bias = true},
                              lecun_normal(config.channels * patch * patch));
  const Shape grid = m.graph.shape(x);
  x = m.graph.view("embedding.patches", x, {grid[0], grid[1], grid[2] * grid[3]});
  x = m.graph.permute("embedding.patches", x, {0, 2, 1});
  const TensorId ids = token_input(m, "class_tokens", 1);
  const TensorId class_token = m.graph.embedding(
      "embedding.class_token", ids,
      m.graph.parameter("embedding.class_token.weight", {1, config.hidden}, SplitHint::kNone,
                        /*decay=*/true, 0, {.init = Init::kZeros}));
  const TensorId tokens[] = {class_token, x};
  x = m.graph.concat("embedding", tokens, 1);
  const TensorId positions = token_input(m, "positions", config.seq_len);
  x = m.graph.add("embedding", x,
                  small_embedding(m, "embedding.positions", positions, config.seq_len));
  return m.graph.dropout("embedding", x, m.options.dropout);
}

TensorId vit_layer(ModelBuilder& m, const std::string& layer, TensorId x) {
  TensorId h = m.graph.layer_norm(layer + ".norm_1", x);
  h = self_attention(m, layer + ".attention", h, {});
  x = add_residual(m, layer, layer + ".attention", x, h);

  m.graph.next_sublayer();
  h = m.graph.layer_norm(layer + ".norm_2", x);
  h = mlp(m, layer + ".mlp", h, m.options.dropout);
  return add_residual(m, layer, layer + ".mlp", x, h);
}

}  // namespace

Graph build_vit(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  TensorId x = vit_embedding(m);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    x = vit_layer(m, "encoder.layers." + std::to_string(i), x);
  }
  m.graph.set_layer(-1);
  x = m.graph.layer_norm("encoder.final_norm", x);
  return m.graph.finish(
      classification_loss(m, m.graph.select_first("head", x), {.init = Init::kZeros}));
}

}  // namespace trainyard
