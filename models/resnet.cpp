// Residual networks: a stem, four stages of residual blocks that each but the first halve the
// image, and a classifier over the mean of each channel (He et al. 2015, arXiv:1512.03385;
// torchvision's ResNet, whose bottlenecks stride in the 3 x 3 convolution). A layer is one block.
#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

struct Block {
  std::string module;
  std::int64_t width;   // of its inner convolutions
  std::int64_t out;     // channels
  std::int32_t stride;  // of the block
  bool bottleneck;
};

TensorId branch(ModelBuilder& m, const Block& block, TensorId x) {
  const auto step = [&](const char* number, std::int64_t out, std::int32_t window,
                        std::int32_t stride) {
    x = convolution(m, block.module + ".conv_" + number, x, out, window, stride, Fan::kOut);
    x = batch_norm(m, block.module + ".norm_" + number, x);
  };
  const auto activate = [&](const char* number) {
    x = relu(m, block.module + ".conv_" + number, x);
  };
  if (block.bottleneck) {
    step("1", block.width, 1, 1);
    activate("1");
    step("2", block.width, 3, block.stride);
    activate("2");
    step("3", block.out, 1, 1);
  } else {
    step("1", block.width, 3, block.stride);
    activate("1");
    step("2", block.out, 3, 1);
  }
  return x;
}

TensorId residual_block(ModelBuilder& m, const Block& block, TensorId x) {
  const TensorId y = branch(m, block, x);
  TensorId shortcut = x;
  if (block.stride != 1 || m.graph.shape(x)[1] != block.out) {
    shortcut = convolution(m, block.module + ".shortcut", x, block.out, 1, block.stride, Fan::kOut);
    shortcut = batch_norm(m, block.module + ".shortcut_norm", shortcut);
  }
  return relu(m, block.module, m.graph.add(block.module, shortcut, y));
}

}  // namespace

Graph build_resnet(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const bool bottleneck = config.depth >= kLeastBottleneckDepth;
  std::int64_t width = kResnetChannels * config.width_factor;
  TensorId x = convolution(m, "stem.conv", image_input(m), width, 7, 2, Fan::kOut);
  x = relu(m, "stem", batch_norm(m, "stem.norm", x));
  x = m.graph.max_pool2d("stem", x, {{3, 3}, {2, 2}, {1, 1}});
  std::int32_t layer = 0;
  std::int32_t stride = 1;  // of the stage's first block
  for (const std::int64_t blocks : blocks_by_stage(config.family, config.depth)) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      m.graph.set_layer(layer);
      x = residual_block(m,
                         {"layers." + std::to_string(layer), width, bottleneck ? 4 * width : width,
                          i == 0 ? stride : 1, bottleneck},
                         x);
      ++layer;
    }
    width *= 2;
    stride = 2;
  }
  m.graph.set_layer(-1);
  x = global_mean(m, "pool", x);
  return m.graph.finish(classification_loss(m, x, uniform_by_fan_in(m.graph.shape(x)[1])));
}

}  // namespace trainyard
