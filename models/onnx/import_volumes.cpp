// Nodes of images of three dims, [N, C, D, H, W], by ops of images of two.
//
// A convolution's window is so many frames deep: its frames lie side by side as channels, those of
// each group of channels behind one another, and one product takes them all. Pools and other sizes
// go over rows and columns first, and then over frames.
#include <string>
#include <vector>

#include "models/onnx/image_windows.h"
#include "models/onnx/importer.h"

namespace trainyard {

namespace {

const DimList kFramesFirst{0, 2, 1, 3, 4};  // and back

/// The most that a window has where windows share frames: each is an op.
constexpr std::int64_t kMostFrames = 256;

}  // namespace

/// [N, C, D, H, W] -> [N D', C k, H, W]: the k frames of each of D' windows, for a weight of dims
/// `w`.
TensorId OnnxImporter::stacked_frames(const OnnxNode& node, TensorId x, const DepthWindows& depth,
                                      const Dims& w) {
  const std::string& where = module(node);
  if (depth.before + depth.behind > 0) x = graph_.zero_pad(where, x, 2, depth.before, depth.behind);
  const Dims dims = shape_dims(x);
  const std::int64_t k = w[2], reach = depth.dilation * (k - 1) + 1;
  if (depth.stride < 1 || k < 1 || dims[2] < reach || w[1] < 1 || dims[1] % w[1] != 0)
    throw FoldError("has no window in the image");
  const std::int64_t count = (dims[2] - reach) / depth.stride + 1;
  x = graph_.permute(where, x, kFramesFirst);
  x = viewed(node, x, {dims[0], dims[2], dims[1] / w[1], w[1], dims[3], dims[4]});
  const Dims stacked{dims[0] * count, dims[1] * k, dims[3], dims[4]};
  const bool apart = k == depth.stride && depth.dilation == 1;  // one behind the other
  if (apart) {
    if (count * k != dims[2]) x = graph_.narrow(where, x, 1, 0, count * k);
    x = viewed(node, x, {dims[0] * count, k, dims[1] / w[1], w[1], dims[3], dims[4]});
    x = k == 1 ? x : graph_.permute(where, x, {0, 2, 1, 3, 4, 5});
    return viewed(node, x, stacked);
  }
  if (k > kMostFrames)
    throw FoldError("has windows of " + std::to_string(k) + " frames, of which at most " +
                    std::to_string(kMostFrames) + " are modelled");
  std::vector<TensorId> frames;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t first = i * depth.dilation;
    frames.push_back(depth.stride == 1
                         ? count == dims[2] ? x : graph_.narrow(where, x, 1, first, count)
                         : every_frame(node, x, first, count, depth.stride));
  }
  if (frames.size() > 1)
    x = graph_.concat(where, frames, 3);
  else
    x = frames.front();
  return viewed(node, x, stacked);
}

/// `count` frames of x [N, D, ...], each `step` behind the one before; zeros where the last group
/// of `step` has no end.
TensorId OnnxImporter::every_frame(const OnnxNode& node, TensorId x, std::int64_t first,
                                   std::int64_t count, std::int64_t step) {
  const std::int64_t lacks = first / step * step + count * step - shape_dims(x)[1];
  if (lacks > 0) x = graph_.zero_pad(module(node), x, 1, 0, lacks);
  return stepped(node, x, 1, first, count, step);
}

/// [O, I, k, h, w] -> [O, k I, h, w]: frames of a group lie behind one another, each with its
/// channels.
TensorId OnnxImporter::stacked_weight(const OnnxNode& node, TensorId weight) {
  const Dims w = shape_dims(weight);
  if (w[2] > 1) weight = graph_.permute(module(node), weight, kFramesFirst);
  return viewed(node, weight, {w[0], w[1] * w[2], w[3], w[4]});
}

/// [N D', O, H, W] -> [N, O, D', H, W]
TensorId OnnxImporter::frames_in_order(const OnnxNode& node, TensorId y, std::int64_t samples) {
  const Dims dims = shape_dims(y);
  y = viewed(node, y, {samples, dims[0] / samples, dims[1], dims[2], dims[3]});
  return graph_.permute(module(node), y, kFramesFirst);
}

/// Windows that do not overlap along frames: each frame makes `k` of them, as so many times the
/// channels.
void OnnxImporter::transposed_volumes(const OnnxNode& node, const Windows& how) {
  const int id = in(node, 0), weight = in(node, 1);
  const Dims dims = dims_of(id), w = dims_of(weight), extra = node.integers("output_padding");
  const bool more = !extra.empty() && extra[0] != 0;
  const DepthWindows& depth = how.depth;
  if (w[2] != depth.stride || depth.dilation != 1 || depth.before + depth.behind != 0 || more)
    throw FoldError("has windows that overlap or are padded along frames, which is not modelled");
  const std::string& where = module(node);
  const std::int64_t k = w[2];
  TensorId x = graph_.permute(where, full_tensor(id), kFramesFirst);
  x = viewed(node, x, {dims[0] * dims[2], dims[1], dims[3], dims[4]});
  const TensorId kernel = viewed(node, tensor(weight), {w[0], w[1] * k, w[3], w[4]});
  const ConvolutionShape shape{
      window_of(w), how.stride, how.before, how.dilation, node.integer("group", 1), false};
  x = graph_.conv_transpose2d(where, x, {kernel, kNoIndex}, shape,
                              extra.size() == 3 ? pair_of(extra, 1, 0) : HeightWidth{});
  const Dims made = shape_dims(x);
  const std::int64_t channels = made[1] / k;
  x = viewed(node, x, {dims[0], dims[2], channels, k, made[2], made[3]});
  x = graph_.permute(where, x, {0, 2, 1, 3, 4, 5});
  const Dims to{dims[0], channels, dims[2] * k, made[2], made[3]};
  x = viewed(node, x, to);
  if (const TensorId bias = convolution_bias(node); bias != kNoIndex)
    x = graph_.add(where, x, graph_.view(where, bias, {channels, 1, 1, 1}));
  set(node, x, to);
}

/// Largest elements and means over boxes are those of rows, of columns and of frames, one after the
/// other.
void OnnxImporter::pool_volumes(const OnnxNode& node, const Windows& how) {
  const Dims dims = dims_of(node.inputs[0]);
  TensorId x =
      viewed(node, full_tensor(node.inputs[0]), {dims[0], dims[1] * dims[2], dims[3], dims[4]});
  x = pooled(node, x, how);
  const Dims of_frames = shape_dims(x);
  x = viewed(node, x, {dims[0], dims[1], dims[2], of_frames[2] * of_frames[3]});
  const DepthWindows& depth = how.depth;
  x = pooled(node, x,
             {{depth.window, 1}, {depth.stride, 1}, {1, 1}, {depth.before, 0}, {depth.behind, 0}});
  const Dims to{dims[0], dims[1], shape_dims(x)[2], of_frames[2], of_frames[3]};
  set(node, viewed(node, x, to), to);
}

void OnnxImporter::resize_volumes(const OnnxNode& node, const Dims& to, bool linear, bool aligned) {
  const Dims dims = dims_of(node.inputs[0]);
  const std::string& where = module(node);
  TensorId x =
      viewed(node, full_tensor(node.inputs[0]), {dims[0], dims[1] * dims[2], dims[3], dims[4]});
  x = graph_.interpolate2d(where, x, pair_of(to, 3, 0), linear, aligned);
  x = viewed(node, x, {dims[0], dims[1], dims[2], to[3] * to[4]});
  x = graph_.interpolate2d(where, x, pair_of({to[2], to[3] * to[4]}, 0, 0), linear, aligned);
  set(node, viewed(node, x, to), to);
}

}  // namespace trainyard
