#include "models/onnx/slice_range.h"

#include <algorithm>
#include <numeric>

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

SliceRange range_of(std::size_t axis, std::int64_t extent, std::int64_t start, std::int64_t end,
                    std::int64_t step) {
  if (step == 0) throw FoldError("has a step of 0");
  const auto within = [&](std::int64_t at, std::int64_t least, std::int64_t most) {
    return std::clamp(at < 0 ? at + extent : at, least, most);
  };
  SliceRange range{axis, 0, 0, step};
  if (step > 0) {
    range.begin = within(start, 0, extent);
    const std::int64_t length = within(end, 0, extent) - range.begin;
    range.count = length <= 0 ? 0 : (length - 1) / step + 1;
  } else {
    range.begin = within(start, 0, extent - 1);
    const std::int64_t length = range.begin - within(end, -1, extent - 1);
    range.count = length <= 0 ? 0 : (length - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1;
  }
  return range;
}

}  // namespace

std::vector<SliceRange> slice_ranges(const OnnxNode&, const Dims& dims, const FoldInputs& inputs) {
  const Dims starts = operand(inputs, 1).integers(), ends = operand(inputs, 2).integers();
  Dims axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs.size() > 3 && inputs[3] != nullptr) axes = inputs[3]->integers();
  if (inputs.size() > 4 && inputs[4] != nullptr) steps = inputs[4]->integers();
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw FoldError("has bounds of several lengths");
  std::vector<SliceRange> out;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = axis_of(axes[i], dims.size());
    for (const SliceRange& other : out) {
      if (other.axis == axis) throw FoldError("cuts an axis twice");
    }
    out.push_back(range_of(axis, dims[axis], starts[i], ends[i], steps[i]));
  }
  return out;
}

Dims squeezed_dims(const Dims& dims, const Dims& axes) {
  std::vector<bool> gone(dims.size(), false);
  for (const std::int64_t axis : axes) gone[axis_of(axis, dims.size())] = true;
  Dims out;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (axes.empty() ? dims[d] == 1 : gone[d]) {
      if (dims[d] != 1) throw FoldError("leaves out a dim of " + std::to_string(dims[d]));
      continue;
    }
    out.push_back(dims[d]);
  }
  return out;
}

Dims unsqueezed_dims(const Dims& dims, const Dims& axes) {
  std::vector<bool> is_new(dims.size() + axes.size(), false);
  for (const std::int64_t axis : axes) {
    const std::size_t at = axis_of(axis, is_new.size());
    if (is_new[at]) throw FoldError("adds a dim twice");
    is_new[at] = true;
  }
  Dims out;
  std::size_t next = 0;
  for (const bool added : is_new) out.push_back(added ? 1 : dims[next++]);
  return out;
}

Dims flattened_dims(const Dims& dims, std::int64_t axis) {
  const bool all = axis == static_cast<std::int64_t>(dims.size());
  const auto at = static_cast<std::ptrdiff_t>(all ? dims.size() : axis_of(axis, dims.size()));
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
  };
  return {product(dims.begin(), dims.begin() + at), product(dims.begin() + at, dims.end())};
}

Dims transposed_order(const OnnxNode& node, std::size_t dims) {
  Dims order = node.integers("perm"), all(dims);
  std::iota(all.begin(), all.end(), 0);
  if (order.empty()) order.assign(all.rbegin(), all.rend());
  if (order.size() != dims || !std::is_permutation(order.begin(), order.end(), all.begin()))
    throw FoldError("has an order that does not name each of " + std::to_string(dims) +
                    " dims once");
  return order;
}

Dims split_sizes(std::int64_t extent, std::size_t parts, const Dims& given) {
  Dims sizes = given;
  if (sizes.empty()) {
    const auto count = static_cast<std::int64_t>(parts);
    const std::int64_t each = (extent + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i)
      sizes.push_back(std::max<std::int64_t>(0, std::min(each, extent - i * each)));
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > extent) throw FoldError("has a part of " + std::to_string(size));
    sum += size;
  }
  if (sizes.size() != parts || sum != extent)
    throw FoldError("has " + std::to_string(sizes.size()) + " parts of together " +
                    std::to_string(sum) + " of " + std::to_string(extent));
  return sizes;
}

}  // namespace trainyard
