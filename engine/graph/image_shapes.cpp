#include "engine/graph/image_shapes.h"

#include <algorithm>

#include "engine/graph/general_shapes.h"

namespace trainyard {

namespace {

constexpr std::size_t kImageDims = 4;  // of [N, C, H, W]

std::int32_t count(std::int64_t extent, std::int32_t window, std::int32_t stride,
                   std::int32_t padding, std::int32_t dilation) {
  const std::int64_t covered = std::int64_t{dilation} * (window - 1) + 1;
  const std::int64_t room = extent + 2 * std::int64_t{padding} - covered;
  return window < 1 || stride < 1 || room < 0 ? 0 : static_cast<std::int32_t>(room / stride + 1);
}

/// One op's shapes, and what is wrong with them.
class ImageShapeCheck {
 public:
  ImageShapeCheck(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  std::string run() const {
    switch (op_.kind) {
      case OpKind::kConv2d: return convolution();
      case OpKind::kMaxPool2d: return pool(2);
      case OpKind::kAvgPool2d: return pool(1);
      case OpKind::kBatchNorm: return batch_norm();
      case OpKind::kBatchMoments: return moments();
      case OpKind::kConvTranspose2d: return transposed();
      case OpKind::kInterpolate2d: return interpolation();
      case OpKind::kGroupNorm: return group_norm();
      default: return normalize();
    }
  }

 private:
  const Shape& shape(TensorId id) const { return graph_.tensors[id].shape; }
  const Shape& x(std::size_t i = 0) const { return shape(op_.inputs[i]); }
  const Shape& y() const { return shape(op_.outputs[0]); }
  bool has(std::size_t inputs, std::size_t outputs) const {
    return op_.inputs.size() == inputs && op_.outputs.size() == outputs && x().size() == kImageDims;
  }

  std::string misfit() const {
    std::string text = "does not take";
    for (const TensorId input : op_.inputs) text += " " + to_text(shape(input));
    return text + " to " + to_text(y());
  }

  std::string window_misfit(HeightWidth window) const {
    return "has no window of " + std::to_string(window.height) + " x " +
           std::to_string(window.width) + " in images of " + to_text(x());
  }

  std::string convolution() const {
    if (!has(op_.attrs->has_bias ? 3 : 2, 1) || x(1).size() != kImageDims) return misfit();
    const Shape& w = x(1);
    const std::int64_t groups = op_.attrs->groups;  // of all ranks
    const std::int64_t here = x()[1] / w[1];
    if (groups < 1 || x()[1] % w[1] != 0 || here == 0 || groups % here != 0 || w[0] % here != 0)
      return "of " + std::to_string(groups) + " groups: weight " + to_text(w) + " does not take " +
             to_text(x());
    if (op_.attrs->has_bias && x(2) != Shape{w[0]}) return misfit();
    const HeightWidth window{static_cast<std::int32_t>(w[2]), static_cast<std::int32_t>(w[3])};
    return windows(window, w[0]);
  }

  /// The other way round: its result is what a convolution would take to its operand.
  std::string transposed() const {
    if (!has(op_.attrs->has_bias ? 3 : 2, 1) || x(1).size() != kImageDims) return misfit();
    const Shape& w = x(1);
    const std::int64_t groups = op_.attrs->groups;  // of all ranks
    const std::int64_t out = y().size() == kImageDims ? y()[1] : 0;
    const std::int64_t here = out / w[1];
    if (groups < 1 || w[0] != x()[1] || here == 0 || groups % here != 0 || w[0] % here != 0)
      return "of " + std::to_string(groups) + " groups: weight " + to_text(w) + " does not take " +
             to_text(x());
    if (out % w[1] != 0 || (op_.attrs->has_bias && x(2) != Shape{out})) return misfit();
    const HeightWidth window{static_cast<std::int32_t>(w[2]), static_cast<std::int32_t>(w[3])};
    const HeightWidth made = transposed_size(x(), window, op_.attrs);
    const OpAttrs& a = op_.attrs;
    if (a.extra.height >= std::max(a.stride.height, a.dilation.height) ||
        a.extra.width >= std::max(a.stride.width, a.dilation.width))
      return "adds as many rows or columns as a stride has, or more";
    if (made.height < 1 || made.width < 1) return window_misfit(window);
    return y() == Shape{x()[0], out, made.height, made.width} ? "" : misfit();
  }

  std::string interpolation() const {
    const bool fits = has(1, 1) && y().size() == kImageDims && y()[0] == x()[0] && y()[1] == x()[1];
    return fits ? "" : misfit();
  }

  std::string group_norm() const {
    if (!has(3, 2) || y() != x() || x(1) != Shape{x()[1]} || x(2) != x(1)) return misfit();
    const Shape& statistics = shape(op_.outputs[1]);
    if (statistics.size() != 3 || statistics[0] != x()[0] || statistics[1] != 2) return misfit();
    const std::int64_t groups = op_.attrs->groups;  // of all ranks
    const std::int64_t here = statistics[2];
    const bool fits = groups > 0 && groups % here == 0 && x()[1] % here == 0;
    return fits ? "" : "of " + std::to_string(groups) + " groups does not divide " + to_text(x());
  }

  std::string windows(HeightWidth window, std::int64_t channels) const {
    const HeightWidth made = count_windows(x(), window, op_.attrs);
    if (made.height < 1 || made.width < 1) return window_misfit(window);
    return y() == Shape{x()[0], channels, made.height, made.width} ? "" : misfit();
  }

  std::string pool(std::size_t results) const {
    if (!has(1, results)) return misfit();
    const OpAttrs& attrs = op_.attrs;
    // A window of padding alone has no largest element.
    if (2 * attrs.padding.height > attrs.window.height ||
        2 * attrs.padding.width > attrs.window.width)
      return "has more padding than half a window";
    if (results == 2 && shape(op_.outputs[1]) != y()) return misfit();
    return windows(attrs.window, x()[1]);
  }

  std::string batch_norm() const {
    const std::int64_t samples = op_.attrs->samples;
    if (!has(3 + averages(), 2) || y() != x() || !of_channels(1)) return misfit();
    if (samples < 1 || x()[0] % samples != 0)
      return "of " + std::to_string(samples) + " samples each does not divide " +
             std::to_string(x()[0]);
    return shape(op_.outputs[1]) == Shape{x()[0] / samples, 2, x()[1]} ? "" : misfit();
  }

  std::string moments() const { return has(1, 1) && y() == Shape{1, 3, x()[1]} ? "" : misfit(); }

  std::string normalize() const {
    const bool fits = has(4 + averages(), 1) && y() == x() && x(1) == Shape{1, 3, x()[1]};
    return fits && of_channels(2) ? "" : misfit();
  }

  /// Inputs that a batch norm has behind weight and bias.
  std::size_t averages() const { return op_.attrs->momentum > 0 ? 2 : 0; }
  /// Inputs from `first` on.
  bool of_channels(std::size_t first) const {
    return std::all_of(op_.inputs.begin() + first, op_.inputs.end(),
                       [&](TensorId id) { return shape(id) == Shape{x()[1]}; });
  }

  const Graph& graph_;
  const Op& op_;
};

}  // namespace

HeightWidth count_windows(const Shape& image, HeightWidth window, const OpAttrs& attrs) {
  return {
      count(image[2], window.height, attrs.stride.height, attrs.padding.height,
            attrs.dilation.height),
      count(image[3], window.width, attrs.stride.width, attrs.padding.width, attrs.dilation.width)};
}

HeightWidth transposed_size(const Shape& image, HeightWidth window, const OpAttrs& attrs) {
  const auto size = [](std::int64_t extent, std::int32_t of, std::int32_t stride,
                       std::int32_t padding, std::int32_t dilation, std::int32_t extra) {
    const std::int64_t all = (extent - 1) * stride - 2 * std::int64_t{padding} +
                             std::int64_t{dilation} * (of - 1) + extra + 1;
    return static_cast<std::int32_t>(std::max<std::int64_t>(0, all));
  };
  return {size(image[2], window.height, attrs.stride.height, attrs.padding.height,
               attrs.dilation.height, attrs.extra.height),
          size(image[3], window.width, attrs.stride.width, attrs.padding.width,
               attrs.dilation.width, attrs.extra.width)};
}

std::string find_image_shape_problem(const Graph& graph, const Op& op) {
  return op.inputs.empty() ? "too few inputs" : ImageShapeCheck(graph, op).run();
}

}  // namespace trainyard
