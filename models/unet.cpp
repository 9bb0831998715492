// U-Net: levels of two convolutions each, down to smaller images of more channels and up again,
// where each level also reads what the one of its size on the way down has made; every pixel gets
// a class (Ronneberger et al. 2015, arXiv:1505.04597). Convolutions keep the image's size and are
// normalised over groups of channels (Wu and He 2018, arXiv:1803.08494), so that no sample depends
// on others. A layer is one level: down, the lowest, up.
#include <string>
#include <vector>

#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

/// Twice a convolution, a norm and a ReLU.
TensorId double_convolution(ModelBuilder& m, const std::string& module, TensorId x,
                            std::int64_t out) {
  for (const char* number : {"1", "2"}) {
    x = convolution(m, module + ".conv_" + number, x, out, 3, 1, Fan::kIn);
    x = m.graph.group_norm(module + ".norm_" + number, x, kUnetGroups);
    x = relu(m, module + ".norm_" + number, x);
  }
  return x;
}

/// To twice the size and `out` channels, beside what the way down has made of that size.
TensorId joined_with(ModelBuilder& m, const std::string& module, TensorId x, TensorId skip,
                     std::int64_t out) {
  const std::int64_t fan_in = m.graph.shape(x)[1];  // a window for each pixel
  x = m.graph.conv_transpose2d(module + ".up", x, out,
                               {.window = {2, 2}, .stride = {2, 2}, .bias = true}, {},
                               lecun_normal(fan_in));
  const TensorId both[] = {skip, x};
  return m.graph.concat(module, both, 1);
}

/// Mean over pixels of the loss of x [B, C, H, W] against the input `labels` [B, H, W].
TensorId pixel_loss(ModelBuilder& m, TensorId x) {
  const Shape image = m.graph.shape(x);
  m.graph.set_head(true);
  x = m.graph.conv2d("head", x, m.config.classes, {.window = {1, 1}, .bias = true},
                     lecun_normal(image[1]));
  m.graph.set_head(false);
  const TensorId logits = m.graph.permute("head", x, {0, 2, 3, 1});
  const TensorId labels = m.graph.input("labels", {image[0], image[2], image[3]}, DType::kInt64);
  return m.graph.cross_entropy("loss", logits, labels);
}

}  // namespace

Graph build_unet(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  TensorId x = image_input(m);
  std::int64_t width = config.hidden;
  std::int32_t layer = 0;
  std::vector<TensorId> skips;
  const auto next = [&] {
    m.graph.set_layer(layer);
    return "layers." + std::to_string(layer++);
  };
  for (std::int64_t level = 0; level < config.depth; ++level) {
    const std::string module = next();
    skips.push_back(double_convolution(m, module, x, width));
    x = m.graph.max_pool2d(module, skips.back(), {{2, 2}, {2, 2}, {}});
    width *= 2;
  }
  x = double_convolution(m, next(), x, width);
  for (; !skips.empty(); skips.pop_back()) {
    width /= 2;
    const std::string module = next();
    x = double_convolution(m, module, joined_with(m, module, x, skips.back(), width), width);
  }
  m.graph.set_layer(-1);
  return m.graph.finish(pixel_loss(m, x));
}

}  // namespace trainyard
