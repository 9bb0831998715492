// What the shapes of ops of images [N, C, H, W] have to be to each other: convolutions, pools,
// batch norms.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace trainyard {

/// Windows that fit into `image` and its padding; 0 in a dim where none does.
HeightWidth count_windows(const Shape& image, HeightWidth window, const OpAttrs& attrs);

/// Extents of a transposed convolution's result, what a convolution would take to `image`; 0 in a
/// dim where none would be left.
HeightWidth transposed_size(const Shape& image, HeightWidth window, const OpAttrs& attrs);

/// Why `op`, of a kind of images, does not take its inputs to its outputs; empty: it does.
std::string find_image_shape_problem(const Graph& graph, const Op& op);

}  // namespace trainyard
