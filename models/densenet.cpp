// Dense networks: each layer reads what all layers before it in its stage have made, side by side,
// and adds its channels; between stages a transition halves channels and image (Huang et al. 2016,
// arXiv:1608.06993; torchvision's DenseNet of growth 32). A layer is one dense layer; a transition
// goes with the layer before it.

#include "models/families.h"
#include "models/image_blocks.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

constexpr std::int64_t kGrowth = 32;
constexpr std::int64_t kStemChannels = 2 * kGrowth;
constexpr std::int64_t kBottleneck = 4 * kGrowth;  // channels before each 3 x 3 convolution

TensorId norm_relu(ModelBuilder& m, const std::string& module, TensorId x) {
  return relu(m, module, batch_norm(m, module, x));
}

TensorId dense_layer(ModelBuilder& m, const std::string& module, TensorId x) {
  TensorId y = norm_relu(m, module + ".norm_1", x);
  y = convolution(m, module + ".conv_1", y, kBottleneck, 1, 1, Fan::kIn);
  y = norm_relu(m, module + ".norm_2", y);
  y = convolution(m, module + ".conv_2", y, kGrowth, 3, 1, Fan::kIn);
  const TensorId both[] = {x, y};
  return m.graph.concat(module, both, 1);
}

TensorId transition(ModelBuilder& m, const std::string& module, TensorId x) {
  x = norm_relu(m, module + ".norm", x);
  x = convolution(m, module + ".conv", x, m.graph.shape(x)[1] / 2, 1, 1, Fan::kIn);
  return m.graph.avg_pool2d(module, x, {{2, 2}, {2, 2}, {}});
}

}  // namespace

Graph build_densenet(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  TensorId x = convolution(m, "stem.conv", image_input(m), kStemChannels, 7, 2, Fan::kIn);
  x = norm_relu(m, "stem.norm", x);
  x = m.graph.max_pool2d("stem", x, {{3, 3}, {2, 2}, {1, 1}});
  const std::vector<std::int64_t> stages = blocks_by_stage(config.family, config.depth);
  std::int32_t layer = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::int64_t i = 0; i < stages[stage]; ++i) {
      m.graph.set_layer(layer);
      x = dense_layer(m, "layers." + std::to_string(layer++), x);
    }
    if (stage + 1 < stages.size()) x = transition(m, "transitions." + std::to_string(stage), x);
  }
  m.graph.set_layer(-1);
  x = norm_relu(m, "final_norm", x);
  x = global_mean(m, "pool", x);
  ParameterForm form = uniform_by_fan_in(m.graph.shape(x)[1]);
  form.bias = Init::kZeros;
  return m.graph.finish(classification_loss(m, x, form));
}

}  // namespace trainyard
