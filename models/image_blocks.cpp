#include "models/image_blocks.h"

#include "models/parameter_forms.h"

namespace trainyard {

TensorId image_input(ModelBuilder& m) {
  const ModelConfig& config = m.config;
  return m.graph.input(
      "images", {m.options.microbatch, config.channels, config.image_size, config.image_size},
      m.options.compute);
}

TensorId convolution(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out,
                     std::int32_t window, std::int32_t stride, Fan fan) {
  const std::int32_t padding = window / 2;
  const std::int64_t channels = fan == Fan::kIn ? m.graph.shape(x)[1] : out;
  return m.graph.conv2d(
      module, x, out,
      {.window = {window, window}, .stride = {stride, stride}, .padding = {padding, padding}},
      kaiming_normal(channels * window * window));
}

TensorId batch_norm(ModelBuilder& m, const std::string& module, TensorId x) {
  const bool all = m.config.batch_norm == BatchNorm::kSynchronised;
  constexpr double kMomentum = 0.1;  // PyTorch's
  return m.graph.batch_norm(module, x, all ? 0 : m.options.microbatch, kMomentum);
}

TensorId relu(ModelBuilder& m, const std::string& module, TensorId x) {
  return m.graph.activation(module, OpKind::kRelu, x);
}

TensorId global_mean(ModelBuilder& m, const std::string& module, TensorId x) {
  const Shape shape = m.graph.shape(x);
  const HeightWidth all{static_cast<std::int32_t>(shape[2]), static_cast<std::int32_t>(shape[3])};
  const TensorId mean = m.graph.avg_pool2d(module, x, {all, all, {}});
  return m.graph.view(module, mean, {shape[0], shape[1]});
}

TensorId classification_loss(ModelBuilder& m, TensorId x, const ParameterForm& form) {
  m.graph.set_head(true);
  const TensorId logits =
      m.graph.linear("head", x, m.config.classes, /*bias=*/true, SplitHint::kNone, form);
  m.graph.set_head(false);
  const TensorId labels = m.graph.input("labels", {m.options.microbatch}, DType::kInt64);
  return m.graph.cross_entropy("loss", logits, labels);
}

}  // namespace trainyard
