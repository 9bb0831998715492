// Swin Transformer: attention within windows of an image's patches, which every second block moves
// by half a window, in four stages of half the image and twice the width each (Liu et al. 2021,
// arXiv:2103.14030; torchvision's SwinTransformer). A layer is one block; patch merging goes with
// the block before it.
//
// Shapes: B = images, H W = patches of a stage's grid, D = width of the stage, N = heads,
// G = windows of an image, S = patches of a window.
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

constexpr double kDeviation = 0.02;
constexpr double kApart =
    -100;  // added to scores of patches that a moved window has from elsewhere

/// Blocks of a stage alike: on which grid, how wide.
struct SwinStage {
  std::int64_t grid;    // patches along each dim
  std::int64_t window;  // the same of a window
  std::int64_t heads;
};

TensorId linear(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out,
                SplitHint split) {
  return m.graph.linear(module, x, out, /*bias=*/true, split, {.deviation = kDeviation});
}

/// [B, H, W, D] -> [B, G, S, D], and back.
TensorId to_windows(ModelBuilder& m, const std::string& module, TensorId x,
                    const SwinStage& stage) {
  const Shape image = m.graph.shape(x);
  const std::int64_t along = stage.grid / stage.window;
  x = m.graph.pieces(module, m.graph.pieces(module, x, 2, along), 1, along);
  x = m.graph.permute(module, x, {0, 1, 3, 2, 4, 5});
  return m.graph.view(module, x, {image[0], along * along, stage.window * stage.window, image[3]});
}
TensorId from_windows(ModelBuilder& m, const std::string& module, TensorId x,
                      const SwinStage& stage) {
  const Shape windows = m.graph.shape(x);
  const std::int64_t along = stage.grid / stage.window;
  x = m.graph.view(module, x, {windows[0], along, along, stage.window, stage.window, windows[3]});
  x = m.graph.permute(module, x, {0, 1, 3, 2, 4, 5});
  return m.graph.view(module, x, {windows[0], stage.grid, stage.grid, windows[3]});
}

/// Which row of the table of biases belongs to each pair of a window's patches [S, S]: its rows are
/// the distances down, from 1 - window to window - 1, and across, the fastest.
Constant relative_positions(std::int64_t window) {
  return integer_constant([window](std::span<std::int64_t> out) {
    auto row = out.begin();
    for (std::int64_t query = 0; query < window * window; ++query) {
      for (std::int64_t key = 0; key < window * window; ++key) {
        const std::int64_t down = query / window - key / window + window - 1;
        const std::int64_t across = query % window - key % window + window - 1;
        *row++ = down * (2 * window - 1) + across;
      }
    }
  });
}

/// What is added to scores [G, 1, S, S] of moved windows: the last of them hold patches from both
/// ends of the image, which do not attend to each other.
Constant moved_mask(const SwinStage& stage) {
  return real_constant([stage](std::span<double> out) {
    const std::int64_t grid = stage.grid, window = stage.window;
    const std::int64_t along = grid / window, patches = window * window, shift = window / 2;
    // Parts of a dim that lie beside each other in the image: all but the last window, that window
    // without what came around the end, and this.
    const auto part = [&](std::int64_t at) { return (at >= grid - window) + (at >= grid - shift); };
    const auto region = [&](std::int64_t of_window, std::int64_t patch) {
      const std::int64_t row = of_window / along * window + patch / window;
      const std::int64_t column = of_window % along * window + patch % window;
      return 3 * part(row) + part(column);
    };
    auto to = out.begin();
    for (std::int64_t g = 0; g < along * along; ++g) {
      for (std::int64_t pair = 0; pair < patches * patches; ++pair)
        *to++ = region(g, pair / patches) == region(g, pair % patches) ? 0 : kApart;
    }
  });
}

/// What all blocks share: made once, and named by what they depend on.
class SwinConstants {
 public:
  explicit SwinConstants(ModelBuilder& m) : m_(m) {}

  TensorId positions(std::int64_t window) {
    const std::int64_t patches = window * window;
    return once("positions." + std::to_string(window), {patches, patches}, DType::kInt64,
                [&] { return relative_positions(window); });
  }
  TensorId mask(const SwinStage& stage) {
    const std::int64_t along = stage.grid / stage.window, patches = stage.window * stage.window;
    return once("mask." + std::to_string(stage.grid), {along * along, 1, patches, patches},
                m_.options.compute, [&] { return moved_mask(stage); });
  }

 private:
  template <typename Content>
  TensorId once(const std::string& name, const Shape& shape, DType type, const Content& content) {
    const auto [known, fresh] = made_.try_emplace(name);
    if (fresh) known->second = m_.graph.constant(name, shape, type, content());
    return known->second;
  }

  ModelBuilder& m_;
  std::map<std::string, TensorId> made_;
};

/// [B, G, S, D] -> [B, G, S, D]: within windows, where `mask` says so not between all patches.
TensorId window_attention(ModelBuilder& m, const std::string& module, TensorId x,
                          const SwinStage& stage, TensorId positions, TensorId mask) {
  const Shape windows = m.graph.shape(x);
  const std::int64_t width = windows[3], head_dim = width / stage.heads;
  // Rows of the weight are heads, each with its query, key and value, so that heads can be split.
  TensorId qkv = linear(m, module + ".qkv", x, 3 * width, SplitHint::kColumn);
  qkv = m.graph.pieces(module, m.graph.pieces(module, qkv, 3, stage.heads), 4, 3);
  qkv = m.graph.permute(module, qkv, {4, 0, 1, 3, 2, 5});  // [3, B, G, N, S, head dim]
  const std::vector<std::int64_t> each = {1, 1, 1};
  const std::vector<TensorId> parts = m.graph.split(module, qkv, 0, each);
  const auto part = [&](std::size_t which) {
    const Shape one = {windows[0], windows[1], stage.heads, windows[2], head_dim};
    return m.graph.view(module, parts[which], one);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const TensorId q = m.graph.affine(module, part(0), scale);
  const TensorId k = m.graph.permute(module, part(1), {0, 1, 2, 4, 3});
  TensorId scores = m.graph.bmm(module + ".scores", q, k);

  const std::int64_t distances = 2 * stage.window - 1;
  const TensorId table =
      m.graph.parameter(module + ".position_bias.weight", {distances * distances, stage.heads},
                        SplitHint::kNone, /*decay=*/false, 0, {.deviation = kDeviation});
  const TensorId bias = m.graph.embedding(module + ".position_bias", positions, table);
  scores = m.graph.add(module + ".scores", scores,
                       m.graph.permute(module + ".position_bias", bias, {2, 0, 1}));
  if (mask != kNoIndex) scores = m.graph.add(module + ".scores", scores, mask);
  const TensorId p = m.graph.dropout(module, m.graph.softmax(module, scores), m.options.dropout);
  x = m.graph.permute(module, m.graph.bmm(module + ".context", p, part(2)), {0, 1, 3, 2, 4});
  return linear(m, module + ".proj", m.graph.view(module, x, windows), width, SplitHint::kRow);
}

/// [B, H, W, D] -> [B, H, W, D].
TensorId swin_block(ModelBuilder& m, const std::string& layer, TensorId x, const SwinStage& stage,
                    bool moved, SwinConstants& constants) {
  const std::string attention = layer + ".attention";
  const std::int64_t width = m.graph.shape(x)[3], shift = moved ? stage.window / 2 : 0;
  const auto rolled = [&](TensorId image, std::int64_t by) {
    if (by == 0) return image;
    return m.graph.roll(attention, m.graph.roll(attention, image, 1, by), 2, by);
  };
  TensorId h = rolled(m.graph.layer_norm(layer + ".norm_1", x), -shift);
  const TensorId positions = constants.positions(stage.window);
  const TensorId mask = shift > 0 ? constants.mask(stage) : TensorId(kNoIndex);
  h = window_attention(m, attention, to_windows(m, attention, h, stage), stage, positions, mask);
  h = rolled(from_windows(m, attention, h, stage), shift);
  x = add_residual(m, layer, attention, x, h);

  m.graph.next_sublayer();
  const std::string mlp = layer + ".mlp";
  h = linear(m, mlp + ".fc1", m.graph.layer_norm(layer + ".norm_2", x), 4 * width,
             SplitHint::kColumn);
  h = m.graph.dropout(mlp, m.graph.activation(mlp, OpKind::kGelu, h), m.options.dropout);
  h = linear(m, mlp + ".fc2", h, width, SplitHint::kRow);
  return add_residual(m, layer, mlp, x, h);
}

/// Patches two by two as one, twice as wide: [B, H, W, D] -> [B, H / 2, W / 2, 2 D]. Of the four
/// those of one column come behind each other.
TensorId merge_patches(ModelBuilder& m, const std::string& module, TensorId x) {
  const Shape image = m.graph.shape(x);
  const std::int64_t half = image[1] / 2, width = image[3];
  x = m.graph.pieces(module, m.graph.pieces(module, x, 2, half), 1, half);
  x = m.graph.permute(module, x, {0, 1, 3, 4, 2, 5});
  x = m.graph.view(module, x, {image[0], half, half, 4 * width});
  x = m.graph.layer_norm(module + ".norm", x);
  return m.graph.linear(module + ".reduction", x, 2 * width, /*bias=*/false, SplitHint::kNone,
                        {.deviation = kDeviation});
}

TensorId patch_embedding(ModelBuilder& m) {
  const ModelConfig& config = m.config;
  const auto patch = static_cast<std::int32_t>(config.patch_size);
  TensorId x = m.graph.conv2d("embedding.patches", image_input(m), config.hidden,
                              {.window = {patch, patch}, .stride = {patch, patch}, .bias = true},
                              uniform_by_fan_in(config.channels * patch * patch));
  x = m.graph.permute("embedding.patches", x, {0, 2, 3, 1});
  return m.graph.dropout("embedding", m.graph.layer_norm("embedding.norm", x), m.options.dropout);
}

}  // namespace

Graph build_swin(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  SwinConstants constants(m);
  TensorId x = patch_embedding(m);
  SwinStage stage{config.image_size / config.patch_size, config.window_size, config.heads};
  const std::vector<std::int64_t> stages = swin_stages(config.layers);
  std::int32_t layer = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    // One window is all of the image: there is nowhere to move it.
    const bool moves = stage.window < stage.grid;
    for (std::int64_t i = 0; i < stages[s]; ++i) {
      m.graph.set_layer(layer);
      x = swin_block(m, "layers." + std::to_string(layer), x, stage, moves && i % 2 == 1,
                     constants);
      ++layer;
    }
    if (s + 1 < stages.size()) x = merge_patches(m, "merges." + std::to_string(s), x);
    stage = {stage.grid / 2, stage.window, 2 * stage.heads};
  }
  m.graph.set_layer(-1);
  x = m.graph.permute("final_norm", m.graph.layer_norm("final_norm", x), {0, 3, 1, 2});
  x = global_mean(m, "pool", x);
  return m.graph.finish(classification_loss(m, x, {.deviation = kDeviation}));
}

}  // namespace trainyard
