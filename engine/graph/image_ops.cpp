// Ops of images [N, C, H, W]: convolutions, pools, batch norms.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/graph_builder.h"
#include "engine/graph/image_shapes.h"

namespace trainyard {

namespace {

/// Extents of the result; of what is no image, or has no room for a window, some all the same: the
/// op is refused.
Shape image_of(const Shape& x, std::int64_t channels, HeightWidth made) {
  if (x.size() != 4) return x;
  return {x[0], channels, std::max(1, made.height), std::max(1, made.width)};
}

HeightWidth windows_of(const Shape& x, HeightWidth window, const OpAttrs& attrs) {
  return x.size() == 4 ? count_windows(x, window, attrs) : HeightWidth{};
}

Shape pooled(const Shape& x, const OpAttrs& attrs) {
  return image_of(x, x.size() == 4 ? x[1] : 1, windows_of(x, attrs.window, attrs));
}

OpAttrs convolution_attrs(const ConvolutionShape& convolution, const WeightAndBias& given) {
  OpAttrs attrs;
  attrs.has_bias = given.bias != kNoIndex;
  attrs.stride = convolution.stride;
  attrs.padding = convolution.padding;
  attrs.dilation = convolution.dilation;
  attrs.groups = static_cast<std::int32_t>(convolution.groups);
  return attrs;
}

OpAttrs pool_attrs(const PoolShape& pool) {
  OpAttrs attrs;
  attrs.window = pool.window;
  attrs.stride = pool.stride;
  attrs.padding = pool.padding;
  return attrs;
}

}  // namespace

TensorId GraphBuilder::conv2d(std::string_view module, TensorId x, std::int64_t out,
                              const ConvolutionShape& convolution, const ParameterForm& form) {
  const std::string name(module);
  const HeightWidth window = convolution.window;
  const std::int64_t channels = shape(x).size() == 4 ? shape(x)[1] / convolution.groups : 1;
  const TensorId w = parameter(
      name + ".weight", {out, std::max<std::int64_t>(1, channels), window.height, window.width},
      SplitHint::kNone, /*decay=*/true, 0, form);
  return conv2d(module, x, {w, convolution.bias ? add_bias(name, out, form) : TensorId(kNoIndex)},
                convolution);
}

TensorId GraphBuilder::conv2d(std::string_view module, TensorId x, const WeightAndBias& given,
                              const ConvolutionShape& convolution) {
  const TensorId w = given.weight;
  const std::int64_t out = shape(w).front();
  const OpAttrs attrs = convolution_attrs(convolution, given);
  const TensorId y =
      add_op(module, OpKind::kConv2d, attrs, {x, w, given.bias},
             image_of(shape(x), out, windows_of(shape(x), convolution.window, attrs)), compute_);
  refuse_image_misfit();
  return y;
}

TensorId GraphBuilder::conv_transpose2d(std::string_view module, TensorId x, std::int64_t out,
                                        const ConvolutionShape& convolution, HeightWidth extra,
                                        const ParameterForm& form) {
  const std::string name(module);
  const HeightWidth window = convolution.window;
  const std::int64_t channels = shape(x).size() == 4 ? shape(x)[1] : 1;
  const std::int64_t groups = convolution.groups;
  if (groups < 1 || out < groups || out % groups != 0)
    throw ConfigError(name + ": " + std::to_string(groups) + " groups do not divide " +
                      std::to_string(out) + " channels");
  const std::int64_t each = out / groups;
  const TensorId w = parameter(name + ".weight", {channels, each, window.height, window.width},
                               SplitHint::kNone, /*decay=*/true, 0, form);
  const TensorId b = convolution.bias ? add_bias(name, out, form) : TensorId(kNoIndex);
  return conv_transpose2d(module, x, {w, b}, convolution, extra);
}

TensorId GraphBuilder::conv_transpose2d(std::string_view module, TensorId x,
                                        const WeightAndBias& given,
                                        const ConvolutionShape& convolution, HeightWidth extra) {
  OpAttrs attrs = convolution_attrs(convolution, given);
  attrs.extra = extra;
  const Shape w = shape(given.weight), image = shape(x);
  const std::int64_t out = w.size() == 4 ? w[1] * convolution.groups : 1;
  const HeightWidth made =
      image.size() == 4 ? transposed_size(image, convolution.window, attrs) : HeightWidth{};
  const TensorId y = add_op(module, OpKind::kConvTranspose2d, attrs, {x, given.weight, given.bias},
                            image_of(image, out, made), compute_);
  refuse_image_misfit();
  return y;
}

TensorId GraphBuilder::interpolate2d(std::string_view module, TensorId x, HeightWidth size,
                                     bool bilinear, bool aligned) {
  OpAttrs attrs;
  attrs.bilinear = bilinear;
  attrs.aligned = bilinear && aligned;
  const std::int64_t channels = shape(x).size() == 4 ? shape(x)[1] : 1;
  return add_image_op(module, OpKind::kInterpolate2d, attrs, {x},
                      image_of(shape(x), channels, size), graph_.tensors[x].dtype);
}

TensorId GraphBuilder::group_norm(std::string_view module, TensorId x, std::int64_t groups) {
  const std::string name(module);
  const std::int64_t channels = shape(x).size() == 4 ? shape(x)[1] : 1;
  const TensorId w = norm_weight(name, channels);
  return group_norm(module, x, groups, {w, zero_bias(name, channels)});
}

TensorId GraphBuilder::group_norm(std::string_view module, TensorId x, std::int64_t groups,
                                  const WeightAndBias& given) {
  OpAttrs attrs;
  attrs.eps = static_cast<float>(norm_eps_);
  attrs.groups = static_cast<std::int32_t>(std::clamp<std::int64_t>(groups, 0, 1 << 30));
  const TensorId y =
      add_op(module, OpKind::kGroupNorm, attrs, {x, given.weight, given.bias}, shape(x), compute_);
  // Mean and 1 / deviation.
  add_saved_result(std::string(module) + ".statistics",
                   {shape(x).front(), 2, std::max<std::int64_t>(1, groups)},
                   accumulation_type(graph_.tensors[x].dtype));
  refuse_image_misfit();
  return y;
}

TensorId GraphBuilder::max_pool2d(std::string_view module, TensorId x, const PoolShape& pool) {
  const OpAttrs attrs = pool_attrs(pool);
  const Shape to = pooled(shape(x), attrs);
  const TensorId y = add_op(module, OpKind::kMaxPool2d, attrs, {x}, to, graph_.tensors[x].dtype);
  add_saved_result(std::string(module) + ".where", to, DType::kInt64);  // in its image
  refuse_image_misfit();
  return y;
}

TensorId GraphBuilder::avg_pool2d(std::string_view module, TensorId x, const PoolShape& pool) {
  const OpAttrs attrs = pool_attrs(pool);
  return add_image_op(module, OpKind::kAvgPool2d, attrs, {x}, pooled(shape(x), attrs),
                      graph_.tensors[x].dtype);
}

TensorId GraphBuilder::batch_norm(std::string_view module, TensorId x, std::int64_t samples,
                                  double momentum) {
  const std::string name(module);
  const std::int64_t channels = shape(x).size() == 4 ? shape(x)[1] : 1;
  const TensorId w = norm_weight(name, channels);
  const WeightAndBias given{w, zero_bias(name, channels)};
  return batch_norm(module, x, samples, given,
                    momentum > 0 ? running_moments(module, channels, momentum) : RunningMoments());
}

RunningMoments GraphBuilder::running_moments(std::string_view module, std::int64_t channels,
                                             double momentum) {
  const auto average = [&](const char* name, Init init) {
    return parameter(std::string(module) + name, {channels}, SplitHint::kNone, /*decay=*/false, 0,
                     {.init = init, .momentum = momentum});
  };
  const TensorId mean = average(".running_mean", Init::kZeros);
  return {mean, average(".running_var", Init::kOnes), momentum};
}

TensorId GraphBuilder::batch_norm(std::string_view module, TensorId x, std::int64_t samples,
                                  const WeightAndBias& given, const RunningMoments& running) {
  const std::string name(module);
  const Shape image = shape(x);
  if (image.size() != 4) throw ConfigError(name + ": batch norm of what is no image");
  const std::int64_t channels = image[1];
  const DType wide = accumulation_type(graph_.tensors[x].dtype);
  const auto [w, b] = given;
  OpAttrs attrs;
  attrs.eps = static_cast<float>(norm_eps_);
  attrs.momentum = static_cast<float>(running.momentum);
  if (samples == 0) {
    const TensorId moments =
        add_image_op(module, OpKind::kBatchMoments, {}, {x}, {1, 3, channels}, wide);
    return add_image_op(module, OpKind::kBatchNormalize, attrs,
                        {x, moments, w, b, running.mean, running.variance}, image, compute_);
  }
  attrs.samples = static_cast<std::int32_t>(samples);
  const TensorId y = add_op(module, OpKind::kBatchNorm, attrs,
                            {x, w, b, running.mean, running.variance}, image, compute_);
  const std::int64_t groups = image[0] / std::max<std::int64_t>(1, samples);
  // Mean and 1 / deviation.
  add_saved_result(name + ".statistics", {std::max<std::int64_t>(1, groups), 2, channels}, wide);
  refuse_image_misfit();
  return y;
}

void GraphBuilder::refuse_image_misfit() const {
  refuse(graph_.ops.back(), find_image_shape_problem(graph_, graph_.ops.back()));
}

TensorId GraphBuilder::add_image_op(std::string_view module, OpKind kind, const OpAttrs& attrs,
                                    std::initializer_list<TensorId> inputs, const Shape& output,
                                    DType dtype) {
  const TensorId y = add_op(module, kind, attrs, inputs, output, dtype);
  refuse_image_misfit();
  return y;
}

}  // namespace trainyard
