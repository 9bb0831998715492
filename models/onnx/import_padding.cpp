// What lies around a tensor: numbers, or elements of its own.
#include <algorithm>
#include <cmath>

#include "models/onnx/importer.h"

namespace trainyard {

/// Elements of its own, mirrored at the outer ones, or the outer ones, or those of the other end.
TensorId OnnxImporter::padded(const OnnxNode& node, TensorId x, int dim, std::int64_t before,
                              std::int64_t behind) {
  const std::string& where = module(node);
  const std::string mode = node.text("mode", "constant");
  const std::int64_t extent = graph_.shape(x).begin()[dim];
  const std::int64_t most = mode == "reflect" ? extent - 1
                            : mode == "wrap"  ? extent
                                              : before + behind;
  if (std::max(before, behind) > most)
    throw FoldError("has more around a dim than its " + std::to_string(extent) + " elements give");
  const auto around = [&](std::int64_t count, bool is_before) {
    if (mode == "edge") {
      Dims dims = shape_dims(x);
      const TensorId edge = graph_.narrow(where, x, dim, is_before ? 0 : extent - 1, 1);
      dims.begin()[dim] = count;
      return repeated(edge, dims);
    }
    if (mode == "wrap") return graph_.narrow(where, x, dim, is_before ? extent - count : 0, count);
    const std::int64_t first = is_before ? 1 : extent - 1 - count;
    return graph_.flip(where, graph_.narrow(where, x, dim, first, count), dim);
  };
  std::vector<TensorId> parts;
  if (before > 0) parts.push_back(around(before, true));
  parts.push_back(x);
  if (behind > 0) parts.push_back(around(behind, false));
  return graph_.concat(where, parts, dim);
}

void OnnxImporter::pad(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const Dims pads = constant_in(node, 1).integers();
  Dims axes;
  if (has_input(node, 3)) {
    axes = constant_in(node, 3).integers();
  } else {
    for (std::size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  if (pads.size() != 2 * axes.size()) throw FoldError("has padding of other dims");
  if (std::all_of(pads.begin(), pads.end(), [](std::int64_t n) { return n == 0; }))
    return pass_on(node);
  const std::string mode = node.text("mode", "constant");
  const bool constant = mode == "constant";
  if (!constant && mode != "reflect" && mode != "edge" && mode != "wrap")
    throw FoldError("pads by " + mode + ", which is not modelled");
  const std::optional<double> number =
      has_input(node, 2) ? scalar(node.inputs[2]) : std::optional(0.0);
  if (constant && (!number || !std::isfinite(*number)))
    throw FoldError("pads with what is no finite number, which is not modelled");
  const double fill = constant ? *number : 0;
  if (fill != 0 && is_whole(id))
    throw FoldError("pads integers with other than zeros, which is not modelled");
  const std::string& where = module(node);
  TensorId x = full_tensor(id);
  if (fill != 0) x = graph_.affine(where, x, 1, -fill);  // and zeros become it
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t before = pads[i], behind = pads[i + axes.size()];
    const std::size_t axis = axis_of(axes[i], dims.size());
    if ((before != 0 || behind != 0) && is_batch(id, axis))
      throw FoldError("makes other samples, which is not modelled");
    const auto dim = static_cast<int>(axis);
    if (before < 0 || behind < 0) {
      const std::int64_t cut = std::max<std::int64_t>(0, -before);
      x = graph_.narrow(where, x, dim, cut,
                        graph_.shape(x).begin()[dim] - cut - std::max<std::int64_t>(0, -behind));
    }
    if (before <= 0 && behind <= 0) continue;
    const std::int64_t more = std::max<std::int64_t>(0, before);
    const std::int64_t last = std::max<std::int64_t>(0, behind);
    x = constant ? graph_.zero_pad(where, x, dim, more, last) : padded(node, x, dim, more, last);
  }
  if (fill != 0) x = graph_.affine(where, x, 1, fill);
  set(node, x);
}

}  // namespace trainyard
