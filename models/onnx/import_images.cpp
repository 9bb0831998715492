// Nodes of images: convolutions, pools, norms, other sizes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/onnx/image_windows.h"
#include "models/onnx/importer.h"

namespace trainyard {

namespace {

/// Windows along one dim of an image. Rounded up, the last may reach beyond the image and its
/// padding, but begins before their end, as PyTorch has it.
struct PooledDim {
  std::int64_t size, window, stride, before, behind;
  bool ceil;

  std::int64_t windows() const {
    const std::int64_t room = size + before + behind - window;
    if (room < 0 || stride < 1) throw FoldError("has no window in the image");
    std::int64_t count = room / stride + 1;
    if (ceil && room % stride != 0 && count * stride < size + before) ++count;
    return count;
  }
  /// Elements behind the image that the last window has.
  std::int32_t reach() const {
    return static_cast<std::int32_t>(
        std::max<std::int64_t>(0, (windows() - 1) * stride + window - before - size));
  }
  bool is_even() const { return before == behind && reach() <= behind; }
  /// 1 over the share of a window's elements that counts.
  double share(std::int64_t at, bool with_padding) const {
    const std::int64_t begin = at * stride - before, end = begin + window;
    const std::int64_t first = with_padding ? -before : 0;
    const std::int64_t last = with_padding ? size + behind : size;
    const std::int64_t counted = std::min(end, last) - std::max(begin, first);
    if (counted < 1) throw FoldError("takes a mean of padding alone");
    return static_cast<double>(window) / static_cast<double>(counted);
  }
};

/// x [N, C, H, W] and a bias of each channel.
TensorId with_bias(GraphBuilder& graph, const std::string& where, TensorId x, TensorId bias) {
  return graph.add(where, x, graph.view(where, bias, {graph.shape(x)[1], 1, 1}));
}

}  // namespace

/// Exporters write zeros where there is none.
TensorId OnnxImporter::convolution_bias(const OnnxNode& node) {
  if (!has_input(node, 2)) return kNoIndex;
  const auto number = scalar(node.inputs[2]);
  return number && *number == 0 ? TensorId(kNoIndex) : full_tensor(node.inputs[2]);
}

void OnnxImporter::convolution(const OnnxNode& node) {
  const int id = in(node, 0), weight = in(node, 1);
  const Dims dims = dims_of(id), w = dims_of(weight);
  if (dims.size() < 3 || w.size() != dims.size())
    throw FoldError("is of other dims than its weight");
  const std::size_t spatial = dims.size() - 2;
  const Windows how = windows_of(node, dims);
  const std::string& where = module(node);
  TensorId x = full_tensor(id), kernel = full_tensor(weight);
  if (spatial == 3) {
    x = stacked_frames(node, x, how.depth, w);
    kernel = stacked_weight(node, kernel);
  }
  if (spatial == 1) {
    x = graph_.view(where, x, {dims[0], dims[1], 1, dims[2]});
    kernel = graph_.view(where, kernel, {w[0], w[1], 1, w[2]});
  }
  HeightWidth padding = how.before;
  if (!how.even()) {  // zeros of their own
    padding = {};
    x = graph_.zero_pad(where, x, 2, how.before.height, how.behind.height);
    x = graph_.zero_pad(where, x, 3, how.before.width, how.behind.width);
  }
  const TensorId bias = convolution_bias(node);
  // The gradient of a bias comes with the weight's: where one of them has none, it is added behind.
  const bool apart = bias != kNoIndex &&
                     (constant_of(weight) == nullptr) != (constant_of(node.inputs[2]) == nullptr);
  const ConvolutionShape shape{window_of(w),
                               how.stride,
                               padding,
                               how.dilation,
                               node.integer("group", 1),
                               bias != kNoIndex && !apart};
  x = graph_.conv2d(where, x, {kernel, apart ? TensorId(kNoIndex) : bias}, shape);
  if (apart) x = with_bias(graph_, where, x, bias);
  if (spatial == 3) return set(node, frames_in_order(node, x, dims[0]));
  Dims to = shape_dims(x);
  if (spatial == 1) {
    to.erase(to.begin() + 2);
    x = viewed(node, x, to);
  }
  set(node, x, to);
}

void OnnxImporter::transposed_convolution(const OnnxNode& node) {
  const int id = in(node, 0), weight = in(node, 1);
  const Dims dims = dims_of(id), w = dims_of(weight);
  if (dims.size() < 3 || w.size() != dims.size())
    throw FoldError("is of other dims than its weight");
  const Windows how = windows_of(node, dims);
  if (!how.even()) throw FoldError("has padding that differs at both ends, which is not modelled");
  if (!node.integers("output_shape").empty())
    throw FoldError("names its result's dims, which is not modelled");
  if (dims.size() == 5) return transposed_volumes(node, how);
  const TensorId x = as_image(node, id), bias = convolution_bias(node);
  const std::string& where = module(node);
  TensorId kernel = full_tensor(weight);
  if (dims.size() == 3) kernel = graph_.view(where, kernel, {w[0], w[1], 1, w[2]});
  const bool apart = bias != kNoIndex &&
                     (constant_of(weight) == nullptr) != (constant_of(node.inputs[2]) == nullptr);
  const ConvolutionShape shape{window_of(w),
                               how.stride,
                               how.before,
                               how.dilation,
                               node.integer("group", 1),
                               bias != kNoIndex && !apart};
  const TensorId y =
      graph_.conv_transpose2d(where, x, {kernel, apart ? TensorId(kNoIndex) : bias}, shape,
                              pair_of(widened(node.integers("output_padding"), 0), 0, 0));
  set_image(node, apart ? with_bias(graph_, where, y, bias) : y, dims.size());
}

/// Zeros around an image of which windows take means, and what is as small as can be around one of
/// which they take the largest.
TensorId OnnxImporter::padded_for_largest(const OnnxNode& node, TensorId x, HeightWidth before,
                                          HeightWidth behind) {
  const std::string& where = module(node);
  const Dims dims = shape_dims(x);
  x = graph_.zero_pad(where, x, 2, before.height, behind.height);
  x = graph_.zero_pad(where, x, 3, before.width, behind.width);
  const Dims padded = shape_dims(x);
  if (node.op != "MaxPool") return x;
  OnnxConstant around = empty_constant(OnnxType::kFloat, {1, 1, padded[2], padded[3]});
  for (std::int64_t h = 0; h < padded[2]; ++h) {
    for (std::int64_t w = 0; w < padded[3]; ++w) {
      const bool inside = h >= before.height && h < before.height + dims[2] && w >= before.width &&
                          w < before.width + dims[3];
      around.numbers[h * padded[3] + w] = inside ? 0 : -std::numeric_limits<double>::infinity();
    }
  }
  return graph_.add(where, x, constant_tensor(around));
}

/// An image, or what lies along one dim as one of height 1.
TensorId OnnxImporter::as_image(const OnnxNode& node, int id) {
  const Dims& dims = dims_of(id);
  if (dims.size() != 3 && dims.size() != 4)
    throw FoldError("is of no images, which is not modelled");
  const TensorId x = full_tensor(id);
  return dims.size() == 4 ? x : viewed(node, x, {dims[0], dims[1], 1, dims[2]});
}

/// y, of an operand of so many dims.
void OnnxImporter::set_image(const OnnxNode& node, TensorId y, std::size_t dims) {
  Dims to = shape_dims(y);
  if (dims == 3) to.erase(to.begin() + 2);
  set(node, viewed(node, y, to), to);
}

void OnnxImporter::pool(const OnnxNode& node) {
  const Dims dims = dims_of(in(node, 0));
  if (dims.size() < 3) throw FoldError("is of no images, which is not modelled");
  const Windows how = windows_of(node, dims);
  if (how.dilation != HeightWidth{1, 1} || how.depth.dilation != 1)
    throw FoldError("has windows with gaps, which is not modelled");
  if (dims.size() == 5) return pool_volumes(node, how);
  set_image(node, pooled(node, as_image(node, node.inputs[0]), how), dims.size());
}

/// x [N, C, H, W]
TensorId OnnxImporter::pooled(const OnnxNode& node, TensorId x, const Windows& how) {
  const Dims dims = shape_dims(x);
  const bool ceil = node.integer("ceil_mode", 0) != 0, largest = node.op == "MaxPool";
  const PooledDim rows{dims[2],           how.window.height, how.stride.height,
                       how.before.height, how.behind.height, ceil};
  const PooledDim columns{dims[3],          how.window.width, how.stride.width,
                          how.before.width, how.behind.width, ceil};
  const std::string& where = module(node);
  const bool counted = largest || node.integer("count_include_pad", 0) != 0;
  if (rows.is_even() && columns.is_even() && (counted || how.before == HeightWidth{})) {
    const PoolShape shape{how.window, how.stride, how.before};
    return largest ? graph_.max_pool2d(where, x, shape) : graph_.avg_pool2d(where, x, shape);
  }
  x = padded_for_largest(node, x, how.before, {rows.reach(), columns.reach()});
  const PoolShape shape{how.window, how.stride, {}};
  if (largest) return graph_.max_pool2d(where, x, shape);
  x = graph_.avg_pool2d(where, x, shape);
  // A mean is over what a window has of the image, or of it and its padding.
  OnnxConstant share = empty_constant(OnnxType::kFloat, {1, 1, rows.windows(), columns.windows()});
  for (std::int64_t h = 0; h < rows.windows(); ++h) {
    for (std::int64_t w = 0; w < columns.windows(); ++w)
      share.numbers[h * columns.windows() + w] = rows.share(h, counted) * columns.share(w, counted);
  }
  return graph_.mul(where, x, constant_tensor(share));
}

void OnnxImporter::global_pool(const OnnxNode& node) {
  const Dims dims = dims_of(in(node, 0));
  const TensorId x = viewed(node, full_tensor(node.inputs[0]), image_dims(dims));
  const HeightWidth all = pair_of(shape_dims(x), 2, 0);
  const PoolShape shape{all, all, {}};
  const TensorId y = node.op == "GlobalMaxPool" ? graph_.max_pool2d(module(node), x, shape)
                                                : graph_.avg_pool2d(module(node), x, shape);
  Dims to(dims.size(), 1);
  to[0] = dims[0];
  to[1] = dims[1];
  set(node, viewed(node, y, to), to);
}

void OnnxImporter::batch_norm(const OnnxNode& node) {
  const int id = in(node, 0);
  graph_.set_norm_eps(node.number("epsilon", 1e-5));
  const bool all = config_.batch_norm == BatchNorm::kSynchronised;
  if (!is_own(in(node, 1)) || !is_own(in(node, 2))) {  // affine=False, or a named buffer
    if (all)
      throw FoldError(
          "norms samples of all ranks without a weight and a bias of its own, which is not "
          "modelled; batch_norm: replica is");
    return norm_of_groups(node, 0);
  }
  const WeightAndBias given{tensor(node.inputs[1]), tensor(node.inputs[2])};
  const Dims dims = dims_of(id);
  const TensorId x = viewed(node, full_tensor(id), image_dims(dims));
  const TensorId y =
      graph_.batch_norm(module(node), x, all ? 0 : dims[0], given, running_moments(node, dims));
  set(node, viewed(node, y, dims), dims);
}

/// ONNX counts what stays, PyTorch what comes. A module's second call has none: they are averages
/// of the first.
RunningMoments OnnxImporter::running_moments(const OnnxNode& node, const Dims& dims) {
  const double momentum = 1 - node.number("momentum", 0.9);
  if (!(momentum > 0 && momentum <= 1)) return {};
  const OnnxTensor* tensors[2];
  for (const std::size_t i : {0, 1}) {
    const int initializer = has_input(node, 3 + i) ? value(node.inputs[3 + i]).initializer : -1;
    if (initializer < 0) return {};
    tensors[i] = &model_.initializers[initializer];
    if (tensors[i]->dims != Dims{dims[1]}) return {};
  }
  const std::string where = module(node),
                    names[] = {where + ".running_mean", where + ".running_var"};
  for (const std::size_t i : {0, 1}) {
    if (take_name(names[i]) >= 0) return {};
    weights_.push_back({names[i], tensors[i], false});
  }
  return graph_.running_moments(where, dims[1], momentum);
}

/// In steps, each a sum or element by element: so many groups of channels of x [N, C, ...] to mean
/// 0 and variance 1 for each sample, times a weight and plus a bias of each channel. 0 groups: each
/// channel over all samples.
void OnnxImporter::norm_of_groups(const OnnxNode& node, std::int64_t groups) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  if (dims.size() < (groups == 0 ? 2U : 3U)) throw FoldError("norms over no dim");
  if (groups < 0 || (groups > 0 && dims[1] % groups != 0))
    throw FoldError("has groups of unlike channels");
  const std::string& where = module(node);
  std::int64_t elements = groups > 0 ? dims[1] / groups : dims[0];
  for (std::size_t d = 2; d < dims.size(); ++d) elements *= dims[d];
  TensorId x = full_tensor(id);
  const bool apart = groups > 0 && groups < dims[1];
  if (apart) x = viewed(node, x, {dims[0], groups, elements});
  DimList over;
  if (groups == 0) over.push_back(0);
  for (std::size_t d = 2; d < graph_.shape(x).size(); ++d) over.push_back(static_cast<int>(d));
  const auto mean = [&](TensorId of) {
    return graph_.affine(where, graph_.sum(where, of, over, true),
                         1 / static_cast<double>(elements));
  };
  const TensorId centred = graph_.sub(where, x, mean(x));
  const TensorId variance = mean(graph_.power(where, centred, 2));
  TensorId y = graph_.mul(
      where, centred,
      graph_.power(where, graph_.affine(where, variance, 1, node.number("epsilon", 1e-5)), -0.5));
  if (apart) y = viewed(node, y, dims);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto same = scalar(in(node, i));
    if (same && *same == (i == 1 ? 1 : 0)) continue;
    TensorId by = full_tensor(node.inputs[i]);
    Shape shape(dims.size() - 1, 1);
    shape[0] = dims[1];
    by = graph_.view(where, by, shape);
    y = i == 1 ? graph_.mul(where, y, by) : graph_.add(where, y, by);
  }
  set(node, y, dims);
}

void OnnxImporter::instance_norm(const OnnxNode& node) {
  const Dims& dims = dims_of(in(node, 0));
  norm_of_groups(node, dims.size() > 1 ? dims[1] : 1);
}

void OnnxImporter::group_norm(const OnnxNode& node) {
  const int id = in(node, 0);
  const std::int64_t groups = node.integer("num_groups", 1);
  if (!is_own(in(node, 1)) || !is_own(in(node, 2))) return norm_of_groups(node, groups);
  graph_.set_norm_eps(node.number("epsilon", 1e-5));
  const Dims dims = dims_of(id);
  const TensorId x = viewed(node, full_tensor(id), image_dims(dims));
  const TensorId y =
      graph_.group_norm(module(node), x, groups, {tensor(node.inputs[1]), tensor(node.inputs[2])});
  set(node, viewed(node, y, dims), dims);
}

void OnnxImporter::resize(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const std::string mode = node.text("mode", "nearest");
  const std::string places = node.text("coordinate_transformation_mode", "half_pixel");
  const bool aligned = places == "align_corners";
  const bool linear =
      mode == "linear" && (aligned || places == "half_pixel" || places == "pytorch_half_pixel");
  const bool nearest = mode == "nearest" && places == "asymmetric" &&
                       node.text("nearest_mode", "round_prefer_floor") == "floor";
  if (!linear && !nearest)
    throw FoldError("resizes by " + mode + ", " + places +
                    ", which is not modelled; bilinear and nearest sizes are");
  Dims to = dims;
  if (has_input(node, 3)) {
    to = constant_in(node, 3).integers();
  } else {
    const OnnxConstant& scales = constant_in(node, 2);
    if (scales.numbers.size() != dims.size()) throw FoldError("has scales of other dims");
    for (std::size_t d = 0; d < dims.size(); ++d)
      to[d] =
          static_cast<std::int64_t>(std::floor(static_cast<double>(dims[d]) * scales.numbers[d]));
  }
  if (to.size() != dims.size() || to[0] != dims[0] || to[1] != dims[1])
    throw FoldError("resizes samples or channels");
  if (dims.size() == 5) return resize_volumes(node, to, linear, aligned);
  const TensorId x = as_image(node, id);
  const HeightWidth size = pair_of(widened({to.begin() + 2, to.end()}, 1), 0, 0);
  set_image(node, graph_.interpolate2d(module(node), x, size, linear, aligned), dims.size());
}

}  // namespace trainyard
