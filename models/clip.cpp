// CLIP: a tower that reads texts and one that sees images end in vectors of one length, of which
// those that belong together are to be close (Radford et al. 2021, arXiv:2103.00020, figure 3;
// Hugging Face's CLIPModel). Both towers are pre-LN transformers, the text's causal, with the
// quick GELU x sigmoid(1.702 x). A text fills the context and ends in its end-of-text token: its
// last position, which has seen all others, stands for it. Layers are the text tower's, then the
// image tower's; what a text has become is read again at the end, by whatever stage that is of.
//
// Shapes: B = pairs of a text and an image, g = pairs that are told apart, G = B / g groups of
// them, S = tokens or patches, D = width of a tower, E = of what both end in.
#include <cmath>
#include <string>

#include "models/families.h"
#include "models/image_blocks.h"

namespace trainyard {

namespace {

constexpr double kDeviation = 0.02;
constexpr double kFirstTemperature = 0.07;

struct Tower {
  std::string name;
  std::int64_t layers, width, heads;
  bool causal;
};

TensorId linear(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out,
                SplitHint split, double deviation = kDeviation) {
  return m.graph.linear(module, x, out, /*bias=*/true, split, {.deviation = deviation});
}

TensorId quick_gelu(ModelBuilder& m, const std::string& module, TensorId x) {
  const TensorId gate =
      m.graph.activation(module, OpKind::kSigmoid, m.graph.affine(module, x, 1.702));
  return m.graph.mul(module, x, gate);
}

/// [B, S, D] -> [B, S, D].
TensorId tower_layer(ModelBuilder& m, const Tower& tower, std::int64_t index, TensorId x) {
  const std::string layer = tower.name + ".layers." + std::to_string(index);
  const std::string attention = layer + ".attention", mlp = layer + ".mlp";
  const std::int64_t width = tower.width;
  const auto heads = static_cast<std::int32_t>(tower.heads);
  const auto head_dim = static_cast<std::int32_t>(width / tower.heads);
  // What ends a branch starts smaller, by how many are added up (Radford et al. 2019).
  const double ending = kDeviation / std::sqrt(2.0 * static_cast<double>(tower.layers));
  const auto narrow = static_cast<float>(kDeviation);
  TensorId h =
      m.graph.linear(attention + ".qkv", m.graph.layer_norm(layer + ".norm_1", x), 3 * width,
                     /*bias=*/true, SplitHint::kColumn,
                     {.parts = {{"q", width, narrow}, {"k", width, narrow}, {"v", width, narrow}}});
  h = m.graph.attention(
      attention, h,
      {.heads = heads, .kv_heads = heads, .head_dim = head_dim, .causal = tower.causal});
  x = m.graph.add(layer, x, linear(m, attention + ".proj", h, width, SplitHint::kRow, ending));

  m.graph.next_sublayer();
  h = linear(m, mlp + ".fc1", m.graph.layer_norm(layer + ".norm_2", x), 4 * width,
             SplitHint::kColumn);
  h = linear(m, mlp + ".fc2", quick_gelu(m, mlp, h), width, SplitHint::kRow, ending);
  return m.graph.add(layer, x, h);
}

/// Rows of a new table [rows, width] that every rank holds whole.
TensorId looked_up(ModelBuilder& m, const std::string& module, TensorId ids, std::int64_t rows,
                   std::int64_t width) {
  const TensorId table = m.graph.parameter(module + ".weight", {rows, width}, SplitHint::kNone,
                                           /*decay=*/true, 0, {.deviation = kDeviation});
  return m.graph.embedding(module, ids, table);
}

TensorId text_embedding(ModelBuilder& m) {
  const ModelConfig& config = m.config;
  const TensorId tokens = token_input(m, "tokens", config.seq_len);
  const TensorId positions = token_input(m, "positions", config.seq_len);
  const TensorId x = m.graph.embedding("text.embedding.tokens", tokens,
                                       vocabulary_table(m, "text.embedding.tokens.weight"));
  return m.graph.add(
      "text.embedding", x,
      looked_up(m, "text.embedding.positions", positions, config.seq_len, config.hidden));
}

/// [B, C, H, W] -> [B, 1 + patches, D].
TensorId image_embedding(ModelBuilder& m) {
  const ModelConfig& config = m.config;
  const auto patch = static_cast<std::int32_t>(config.patch_size);
  const std::int64_t width = config.image_hidden;
  TensorId x = m.graph.conv2d("image.embedding.patches", image_input(m), width,
                              {.window = {patch, patch}, .stride = {patch, patch}},
                              {.deviation = linear_deviation(config.channels * patch * patch)});
  const Shape grid = m.graph.shape(x);
  const std::int64_t patches = grid[2] * grid[3];
  x = m.graph.view("image.embedding.patches", x, {grid[0], width, patches});
  x = m.graph.permute("image.embedding.patches", x, {0, 2, 1});
  const TensorId class_token =
      looked_up(m, "image.embedding.class_token", token_input(m, "class_tokens", 1), 1, width);
  const TensorId tokens[] = {class_token, x};
  x = m.graph.concat("image.embedding", tokens, 1);
  const TensorId positions = token_input(m, "image_positions", patches + 1);
  x = m.graph.add("image.embedding", x,
                  looked_up(m, "image.embedding.positions", positions, patches + 1, width));
  return m.graph.layer_norm("image.embedding.norm", x);
}

/// A tower's vector of each sample, [B, D] -> [B, E] of length 1.
TensorId direction(ModelBuilder& m, const std::string& tower, TensorId x) {
  const auto width = static_cast<double>(m.graph.shape(x)[1]);
  x = m.graph.layer_norm(tower + ".final_norm", x);
  const std::string module = tower + ".projection";
  x = m.graph.linear(module, x, m.config.projection_dim, /*bias=*/false, SplitHint::kNone,
                     {.deviation = std::sqrt(1 / width)});
  const TensorId squares = m.graph.sum(module, m.graph.power(module, x, 2), {1}, /*keepdim=*/true);
  return m.graph.mul(module, x, m.graph.power(module, squares, -0.5));
}

/// Mean of the cross entropies of which text of its group belongs to an image, and which image to a
/// text. Both are rows of one tensor [B, 2, g]; `labels` [B, 2] is each pair's place in its group.
TensorId contrastive_loss(ModelBuilder& m, TensorId text, TensorId image) {
  const std::int64_t pairs = m.options.microbatch, group = m.config.contrast,
                     width = m.config.projection_dim;
  const std::string module = "contrast";
  // By way of one dim: of [1, g] that a rank may have of B in two, nothing says which one it
  // splits.
  const auto grouped = [&](TensorId x) {
    x = m.graph.view(module, x, {pairs * width});
    return m.graph.view(module, x, {pairs / group, group, width});
  };
  TensorId logits =
      m.graph.bmm(module, grouped(image), m.graph.permute(module, grouped(text), {0, 2, 1}));
  // What is learned is how far the logarithm of the scale is from where it starts.
  const TensorId scale = m.graph.parameter("logit_scale", {1}, SplitHint::kNone, /*decay=*/false, 0,
                                           {.init = Init::kZeros});
  const TensorId log_scale = m.graph.affine(module, scale, 1, std::log(1 / kFirstTemperature));
  logits = m.graph.mul(module, logits, m.graph.activation(module, OpKind::kExp, log_scale));
  const Shape row = {pairs, 1, group};
  const TensorId both[] = {m.graph.view(module, logits, row),
                           m.graph.view(module, m.graph.permute(module, logits, {0, 2, 1}), row)};
  const TensorId labels = token_input(m, "labels", 2);
  return m.graph.cross_entropy("loss", m.graph.concat(module, both, 1), labels);
}

}  // namespace

Graph build_clip(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const Tower text_tower{"text", config.layers, config.hidden, config.heads, true};
  const Tower image_tower{"image", config.image_layers, config.image_hidden, config.image_heads,
                          false};
  std::int32_t layer = 0;
  TensorId text = text_embedding(m);
  for (std::int64_t i = 0; i < text_tower.layers; ++i) {
    m.graph.set_layer(layer++);
    text = tower_layer(m, text_tower, i, text);
  }
  text = m.graph.narrow("text.pool", text, 1, config.seq_len - 1, 1);
  text = direction(m, "text", m.graph.view("text.pool", text, {options.microbatch, config.hidden}));

  m.graph.set_layer(layer);
  TensorId image = image_embedding(m);
  for (std::int64_t i = 0; i < image_tower.layers; ++i) {
    m.graph.set_layer(layer++);
    image = tower_layer(m, image_tower, i, image);
  }
  m.graph.set_layer(-1);
  image = direction(m, "image", m.graph.select_first("image.pool", image));
  return m.graph.finish(contrastive_loss(m, text, image));
}

}  // namespace trainyard
