#include "models/onnx/image_windows.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "models/onnx/onnx_constant.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

std::int32_t extent(std::int64_t n) {
  if (n < 0 || n > 1 << 30)
    throw FoldError("has a window, stride or padding of " + std::to_string(n));
  return static_cast<std::int32_t>(n);
}

/// Takes what is said of frames off a list of three numbers.
std::int32_t taken_off(Dims& numbers, std::size_t at, std::int32_t fallback) {
  if (numbers.size() < 3) return fallback;
  const std::int32_t depth = extent(numbers[at]);
  numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(at));
  return depth;
}

/// Padding that makes as many windows of a dim as strides fit into it; what cannot be halved lies
/// at one end.
std::pair<std::int64_t, std::int64_t> same_padding(const Dims& size_window_stride_dilation,
                                                   bool upper) {
  const Dims& of = size_window_stride_dilation;
  if (of[2] < 1) throw FoldError("has a stride of " + std::to_string(of[2]));
  const std::int64_t reach = (of[1] - 1) * of[3] + 1;
  const std::int64_t all = std::max<std::int64_t>(0, (of[0] - 1) / of[2] * of[2] + reach - of[0]);
  return upper ? std::pair(all / 2, all - all / 2) : std::pair(all - all / 2, all / 2);
}

/// What the node says of the padding in front of each dim and then behind each.
Dims pads_of(const OnnxNode& node, const Dims& dims, const Dims& window) {
  const std::size_t spatial = dims.size() - 2;
  const std::string automatic = node.text("auto_pad", "NOTSET");
  Dims pads = node.integers("pads");
  if (pads.empty() || automatic == "VALID") pads.assign(2 * spatial, 0);
  if (pads.size() != 2 * spatial) throw FoldError("has padding of other dims");
  if (automatic == "NOTSET" || automatic == "VALID") return pads;
  const bool known = (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") &&
                     node.op != "ConvTranspose" && window.size() == spatial;
  if (!known) throw FoldError("pads by itself (" + automatic + "), which is not modelled");
  const Dims strides = node.integers("strides"), dilations = node.integers("dilations");
  for (std::size_t d = 0; d < spatial; ++d) {
    std::tie(pads[d], pads[spatial + d]) =
        same_padding({dims[2 + d], window[d], strides.empty() ? 1 : strides[d],
                      dilations.empty() ? 1 : dilations[d]},
                     automatic == "SAME_UPPER");
  }
  return pads;
}

}  // namespace

HeightWidth pair_of(const Dims& numbers, std::size_t at, std::int32_t fallback) {
  if (numbers.size() < at + 2) return {fallback, fallback};
  return {extent(numbers[at]), extent(numbers[at + 1])};
}

Dims widened(Dims numbers, std::int64_t neutral) {
  if (numbers.size() == 1) numbers.insert(numbers.begin(), neutral);
  return numbers;
}

Windows windows_of(const OnnxNode& node, const Dims& dims) {
  const std::size_t spatial = dims.size() - 2;
  if (spatial < 1 || spatial > 3)
    throw FoldError("is of " + std::to_string(spatial) + " dims, of which 1 to 3 are modelled");
  Windows out;
  Dims window = node.integers("kernel_shape"), strides = node.integers("strides"),
       dilations = node.integers("dilations");
  for (const Dims* numbers : {&window, &strides, &dilations}) {
    if (!numbers->empty() && numbers->size() != spatial)
      throw FoldError("has windows of other dims");
  }
  Dims pads = pads_of(node, dims, window);
  if (spatial == 3) {
    out.depth = {taken_off(window, 0, 1), taken_off(strides, 0, 1), taken_off(dilations, 0, 1),
                 extent(pads[0]), extent(pads[3])};
    pads = {pads[1], pads[2], pads[4], pads[5]};
  }
  if (spatial == 1) pads = {0, pads[0], 0, pads[1]};
  out.window = pair_of(widened(window, 1), 0, 0);
  out.stride = pair_of(widened(strides, 1), 0, 1);
  out.dilation = pair_of(widened(dilations, 1), 0, 1);
  out.before = pair_of(pads, 0, 0);
  out.behind = pair_of(pads, 2, 0);
  return out;
}

HeightWidth window_of(const Dims& weight) {
  const auto spatial = weight.begin() + (weight.size() == 5 ? 3 : 2);
  return pair_of(widened({spatial, weight.end()}, 1), 0, 0);
}

Dims image_dims(Dims dims) {
  if (dims.size() < 2) throw FoldError("has no channels");
  dims.insert(dims.begin() + 2, 4 - std::min<std::size_t>(4, dims.size()), 1);
  for (; dims.size() > 4; dims.pop_back()) dims[dims.size() - 2] *= dims.back();
  return dims;
}

}  // namespace trainyard
