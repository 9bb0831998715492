// What convolutions and pools of ONNX files say of their windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "models/onnx/onnx_model.h"

namespace trainyard {

/// Windows along the frames of an image of three dims.
struct DepthWindows {
  std::int32_t window = 1, stride = 1, dilation = 1, before = 0, behind = 0;
};

/// What convolutions and pools say alike. Padding that differs at both ends is no part of it.
struct Windows {
  HeightWidth window, stride, dilation, before, behind;
  DepthWindows depth = {};
  bool even() const { return before == behind; }
};

/// What a node of images [N, C, ...] of one dim to three says. Throws FoldError where they are not
/// modelled.
Windows windows_of(const OnnxNode& node, const std::vector<std::int64_t>& dims);

/// The window of a convolution's weight [out, in, ...].
HeightWidth window_of(const std::vector<std::int64_t>& weight);

/// Two numbers of a list, the first at `at`; where it has none `fallback` twice.
HeightWidth pair_of(const std::vector<std::int64_t>& numbers, std::size_t at,
                    std::int32_t fallback);

/// Numbers of one spatial dim as those of two, the first of which nothing happens in.
std::vector<std::int64_t> widened(std::vector<std::int64_t> numbers, std::int64_t neutral);

/// [N, C, ...] as an image: what lies behind the channels as its rows and columns.
std::vector<std::int64_t> image_dims(std::vector<std::int64_t> dims);

}  // namespace trainyard
