// Stacks of 3 x 3 convolutions, pooled by half behind each of five stages, and a classifier of
// three linear layers (Simonyan and Zisserman 2014, arXiv:1409.1556; torchvision's VGG without
// batch norm). A layer is one convolution; pools go with the convolution before them.
#include <algorithm>

#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostChannels = 512;
constexpr std::int64_t kClassifier = 4096;  // width of its hidden layers
constexpr std::int32_t kMap = 7;            // the image that it reads, where larger ones divide
constexpr double kLinearDeviation = 0.01;

TensorId vgg_convolution(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out) {
  x = m.graph.conv2d(module, x, out, {.window = {3, 3}, .padding = {1, 1}, .bias = true},
                     kaiming_normal(out * 9));
  return relu(m, module, x);
}

/// To 7 x 7, as the classifier was made for, where a multiple of that is left of the image; smaller
/// images are read as they are.
TensorId flat_map(ModelBuilder& m, TensorId x) {
  const Shape map = m.graph.shape(x);
  if (map[2] > kMap && map[2] % kMap == 0) {
    const auto window = static_cast<std::int32_t>(map[2] / kMap);
    x = m.graph.avg_pool2d("classifier", x, {{window, window}, {window, window}, {}});
  }
  const Shape shape = m.graph.shape(x);
  return m.graph.view("classifier", x, {shape[0], shape[1] * shape[2] * shape[3]});
}

TensorId hidden_layer(ModelBuilder& m, const std::string& module, TensorId x, SplitHint split) {
  x = m.graph.linear(module, x, kClassifier, /*bias=*/true, split, {.deviation = kLinearDeviation});
  return m.graph.dropout(module, relu(m, module, x), m.options.dropout);
}

}  // namespace

Graph build_vgg(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  TensorId x = image_input(m);
  std::int64_t channels = 64;
  std::int32_t layer = 0;
  for (const std::int64_t convolutions : blocks_by_stage(config.family, config.depth)) {
    std::string module;
    for (std::int64_t i = 0; i < convolutions; ++i) {
      m.graph.set_layer(layer);
      module = "layers." + std::to_string(layer++);
      x = vgg_convolution(m, module, x, channels);
    }
    x = m.graph.max_pool2d(module, x, {{2, 2}, {2, 2}, {}});
    channels = std::min(2 * channels, kMostChannels);
  }
  m.graph.set_layer(-1);
  x = flat_map(m, x);
  x = hidden_layer(m, "classifier.fc1", x, SplitHint::kColumn);
  x = hidden_layer(m, "classifier.fc2", x, SplitHint::kRow);
  return m.graph.finish(classification_loss(m, x, {.deviation = kLinearDeviation}));
}

}  // namespace trainyard
