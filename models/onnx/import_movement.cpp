// Nodes that carry elements elsewhere: views, orders of dims, ranges, parts, rows of tables.
#include <algorithm>

#include "models/onnx/dim_groups.h"
#include "models/onnx/importer.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {

/// Parts that a list of indices is gathered in, at most.
constexpr std::int64_t kMostRuns = 64;

}  // namespace

TensorId OnnxImporter::viewed(const OnnxNode& node, TensorId x, const Dims& dims) {
  const Shape shape = graph_shape(dims);
  return graph_.shape(x) == shape ? x : graph_.view(module(node), x, shape);
}

void OnnxImporter::reshape(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims& dims = dims_of(id);
  Dims to;
  if (node.op == "Reshape") {
    to = reshaped_dims(dims, constant_in(node, 1).integers(), node.integer("allowzero", 0) != 0);
  } else if (node.op == "Flatten") {
    to = flattened_dims(dims, node.integer("axis", 1));
  } else if (node.op == "Squeeze") {
    to = squeezed_dims(dims, axes_in(node, 1));
  } else {
    to = unsqueezed_dims(dims, axes_in(node, 1));
  }
  if (to == dims) return pass_on(node);
  TensorId x = finer_tensor(id);
  const auto finer = refined_dims(shape_dims(x), to);
  check_dims(to);
  if (!finer || finer->size() > kMostDims || to.empty())
    return set(node, viewed(node, full_tensor(id), to), to);
  set_finer(node, viewed(node, x, *finer), to);
}

/// Dims that a view made one move together.
void OnnxImporter::transpose_groups(const OnnxNode& node, const Dims& order, const Dims& to) {
  const int id = in(node, 0);
  const Numbered<std::size_t> groups = value(id).groups;
  Numbered<int> begins;
  int begin = 0;
  for (const std::size_t group : groups) {
    begins.push_back(begin);
    begin += static_cast<int>(group);
  }
  DimList dims;
  Numbered<std::size_t> moved;
  for (const std::int64_t d : order) {
    moved.push_back(groups[d]);
    for (std::size_t i = 0; i < groups[d]; ++i) dims.push_back(begins[d] + static_cast<int>(i));
  }
  set_finer(node, graph_.permute(module(node), finer_tensor(id), dims), to);
  value(node.outputs[0]).groups = moved;
}

void OnnxImporter::transpose(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims order = transposed_order(node, dims_of(id).size());
  Dims to;
  DimList dims;
  for (const std::int64_t d : order) {
    to.push_back(dims_of(id).begin()[d]);
    dims.push_back(static_cast<int>(d));
  }
  if (std::is_sorted(order.begin(), order.end())) return pass_on(node);
  const Value& v = value(id);
  if (v.kind == Value::Kind::kInitializer && order == Dims{1, 0}) {
    // A product takes it the one way or the other.
    Value turned = v;
    turned.dims = to;
    turned.transposed = !v.transposed;
    value(node.outputs[0]) = turned;
    return;
  }
  if (v.kind == Value::Kind::kTensor && v.finer != kNoIndex)
    return transpose_groups(node, order, to);
  set(node, graph_.permute(module(node), full_tensor(id), dims), to);
}

void OnnxImporter::concat(const OnnxNode& node) {
  std::vector<TensorId> parts;
  const auto axis = static_cast<int>(axis_of(node.integer("axis", 0), dims_of(in(node, 0)).size()));
  const bool of_data = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](int id) { return id != kNoOnnxValue && is_of_data(id); });
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const int id = in(node, i);
    const Dims& dims = dims_of(id);
    if (std::count(dims.begin(), dims.end(), 0) > 0) continue;  // nothing to join
    parts.push_back(of_data && axis != 0 ? beside_data(id) : full_tensor(id));
  }
  if (parts.empty()) throw FoldError("joins nothing");
  if (parts.size() == 1) return set(node, parts[0]);
  set(node, graph_.concat(module(node), parts, axis));
}

void OnnxImporter::split(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims& dims = dims_of(id);
  const std::size_t axis = axis_of(node.integer("axis", 0), dims.size());
  const Dims given = has_input(node, 1) ? constant_in(node, 1).integers() : Dims();
  const Dims sizes = split_sizes(dims[axis], node.outputs.size(), given);
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) throw FoldError("has a part without elements");
  const TensorId x = full_tensor(id);
  if (std::any_of(node.outputs.begin(), node.outputs.end(),
                  [&](int out) { return is_unread(out); })) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
      if (is_unread(node.outputs[i])) continue;
      const TensorId part = graph_.narrow(module(node), x, static_cast<int>(axis), begin, sizes[i]);
      set(node, part, shape_dims(part), i);
    }
    return;
  }
  const auto parts = graph_.split(module(node), x, static_cast<int>(axis), sizes);
  for (std::size_t i = 0; i < parts.size(); ++i) set(node, parts[i], shape_dims(parts[i]), i);
}

/// Every step-th element of a dim, as (elements, step) of which one is taken.
TensorId OnnxImporter::stepped(const OnnxNode& node, TensorId x, int dim, std::int64_t begin,
                               std::int64_t count, std::int64_t step) {
  const std::string& where = module(node);
  Dims dims = shape_dims(x);
  if (step < 0) {  // as many the other way
    x = graph_.flip(where, x, dim);
    begin = dims.begin()[dim] - 1 - begin;
    return step == -1 ? graph_.narrow(where, x, dim, begin, count)
                      : stepped(node, x, dim, begin, count, -step);
  }
  // As many whole groups of `step` as there are elements taken, the last of which may lack its end.
  const std::int64_t room = count * step, first = begin / step * step;
  if (first + room > dims.begin()[dim])
    throw FoldError("takes every " + std::to_string(step) + "th of " +
                    std::to_string(dims.begin()[dim]) + ", which is not modelled");
  if (first != 0 || room != dims.begin()[dim]) {
    x = graph_.narrow(where, x, dim, first, room);
    dims.begin()[dim] = room;
  }
  Dims apart = dims;
  apart.begin()[dim] = count;
  apart.insert(apart.begin() + dim + 1, step);
  x = graph_.view(where, x, graph_shape(apart));
  x = graph_.narrow(where, x, dim + 1, begin - first, 1);
  dims.begin()[dim] = count;
  return graph_.view(where, x, graph_shape(dims));
}

void OnnxImporter::slice(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const auto ranges = slice_ranges(node, dims, constants_behind(node, 1));
  Dims to = dims;
  bool whole = true;
  for (const SliceRange& range : ranges) {
    if (range.count < 1) throw FoldError("takes nothing");
    whole = whole && range.count == dims[range.axis] && range.step > 0;
    to[range.axis] = range.count;
  }
  if (whole) return pass_on(node);
  TensorId x = full_tensor(id);
  for (const SliceRange& range : ranges) {
    const auto dim = static_cast<int>(range.axis);
    if (range.count == dims[range.axis] && range.step > 0) continue;
    x = range.step == 1 || range.count == 1
            ? graph_.narrow(module(node), x, dim, range.begin, range.count)
            : stepped(node, x, dim, range.begin, range.count, range.step);
  }
  set(node, x, to);
}

void OnnxImporter::gather(const OnnxNode& node) {
  const int id = in(node, 0), indices = in(node, 1);
  const Dims dims = dims_of(id), of_index = dims_of(indices);
  const std::size_t axis = axis_of(node.integer("axis", 0), dims.size());
  Dims to(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
  to.insert(to.end(), of_index.begin(), of_index.end());
  to.insert(to.end(), dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
  const Value& table = value(id);
  const std::string& where = module(node);
  if (table.kind == Value::Kind::kInitializer && dims.size() == 2 && axis == 0 &&
      !table.transposed && !of_index.empty()) {
    const TensorId rows = graph_.embedding(where, tensor(indices), tensor(id));
    return set(node, rows, to);
  }
  if (constant_of(indices) == nullptr) {
    if (axis != 0) return look_up_along(node, axis, to);
    if (is_of_data(id) && gather_flat(node)) return;
    return look_up(node, id, indices, to);
  }
  const OnnxConstant& at = constant_in(node, 1);
  // Runs of indices, one behind the other.
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (std::size_t i = 0; i < at.numbers.size(); ++i) {
    const std::int64_t index = at.integer(i) < 0 ? at.integer(i) + dims[axis] : at.integer(i);
    if (index < 0 || index >= dims[axis])
      throw FoldError("has index " + std::to_string(index) + " of " + std::to_string(dims[axis]));
    if (!runs.empty() && runs.back().first + runs.back().second == index) {
      ++runs.back().second;
    } else {
      runs.emplace_back(index, 1);
    }
  }
  if (std::ssize(runs) > kMostRuns && axis == 0 && !is_of_data(id))
    return look_up(node, id, indices, to);
  if (runs.empty()) throw FoldError("looks up nothing");
  const TensorId x = full_tensor(id);
  if (std::ssize(runs) > kMostRuns) {
    if (is_batch(id, axis)) throw FoldError("looks up other samples, which is not modelled");
    return set(node, viewed(node, taken(node, x, axis, at), to), to);
  }
  std::vector<TensorId> parts;
  const auto dim = static_cast<int>(axis);
  for (const auto& [begin, count] : runs)
    parts.push_back(count == dims[axis] ? x : graph_.narrow(where, x, dim, begin, count));
  const TensorId all = parts.size() == 1 ? parts[0] : graph_.concat(where, parts, dim);
  set(node, viewed(node, all, to), to);
}

/// Rows of a table at constant indices.
void OnnxImporter::gather_rows(const OnnxNode& node) {
  const int id = in(node, 0);
  const Value& table = value(id);
  const OnnxConstant& at = constant_in(node, 1);
  const bool rows = table.kind == Value::Kind::kInitializer && table.dims.size() == 2 &&
                    !table.transposed && at.dims.size() > 1 && at.dims.back() == 1 &&
                    node.integer("batch_dims", 0) == 0;
  if (!rows && !is_of_data(id) && at.dims.size() > 1 && at.dims.back() == 1 &&
      node.integer("batch_dims", 0) == 0) {
    Dims to(at.dims.begin(), at.dims.end() - 1);
    to.insert(to.end(), dims_of(id).begin() + 1, dims_of(id).end());
    return look_up(node, id, node.inputs[1], to);
  }
  if (!rows && gather_places(node)) return;
  if (!rows) throw FoldError("looks up elements of what is no table, which is not modelled");
  OnnxConstant indices = at;
  indices.dims.pop_back();
  for (double& index : indices.numbers) {
    if (index < 0) index += static_cast<double>(table.dims[0]);
    if (index < 0 || index >= static_cast<double>(table.dims[0]))
      throw FoldError("has an index beyond " + std::to_string(table.dims[0]) + " rows");
  }
  Dims to = indices.dims;
  to.push_back(table.dims[1]);
  const TensorId x = tensor(id);
  set(node, graph_.embedding(module(node), constant_tensor(indices), x), to);
}

/// Nothing is repeated before something needs it.
void OnnxImporter::expand(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  Dims to;
  // Dims of several elements that are repeated as a whole: what they are behind, and again.
  Dims apart, times_apart;
  bool whole = false;
  if (node.op == "Expand") {
    to = broadcast_dims(dims, constant_in(node, 1).integers());
  } else {  // Tile
    const Dims times = constant_in(node, 1).integers();
    if (times.size() != dims.size()) throw FoldError("repeats another number of dims");
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (times[d] < 1 || times[d] > std::int64_t{1} << 40)
        throw FoldError("repeats a dim that often");
      if (times[d] != 1 && dims[d] != 1) {
        whole = true;
        apart.push_back(1);
        times_apart.push_back(times[d]);
      }
      apart.push_back(dims[d]);
      times_apart.push_back(dims[d] == 1 ? times[d] : dims[d]);
      to.push_back(dims[d] * times[d]);
    }
  }
  for (const std::int64_t dim : to) {
    if (dim > std::int64_t{1} << 40) throw FoldError("makes a dim of " + std::to_string(dim));
  }
  if (whole) {
    check_dims(apart);
    const TensorId all = repeated(viewed(node, full_tensor(id), apart), times_apart);
    return set(node, viewed(node, all, to), to);
  }
  TensorId x = tensor(id);
  if (graph_.shape(x).size() < to.size()) {
    Shape shape(to.size() - graph_.shape(x).size(), 1);
    shape.insert(shape.end(), graph_.shape(x).begin(), graph_.shape(x).end());
    if (!dims.empty() || to.size() > 1) x = graph_.view(module(node), x, shape);
  }
  set(node, x, to);
}

/// Channels as blocks of elements, or blocks as channels: dims apart, and in another order.
void OnnxImporter::depth_and_space(const OnnxNode& node) {
  const int id = in(node, 0);
  const Dims dims = dims_of(id);
  const std::int64_t block = node.integer("blocksize", 0);
  const bool to_space = node.op == "DepthToSpace";
  if (dims.size() != 4 || block < 1 || block > 1 << 15) throw FoldError("is of no blocks");
  const std::int64_t area = block * block;
  if (to_space ? dims[1] % area != 0 : dims[2] % block != 0 || dims[3] % block != 0)
    throw FoldError("is of no whole blocks");
  const std::string& where = module(node);
  const TensorId x = full_tensor(id);
  Dims apart, to;
  DimList order;
  if (to_space) {
    const std::int64_t channels = dims[1] / area;
    const bool channels_last = node.text("mode", "DCR") == "DCR";
    apart = channels_last ? Dims{dims[0], block, block, channels, dims[2], dims[3]}
                          : Dims{dims[0], channels, block, block, dims[2], dims[3]};
    order = channels_last ? DimList{0, 3, 4, 1, 5, 2} : DimList{0, 1, 4, 2, 5, 3};
    to = {dims[0], channels, dims[2] * block, dims[3] * block};
  } else {
    apart = {dims[0], dims[1], dims[2] / block, block, dims[3] / block, block};
    order = {0, 3, 5, 1, 2, 4};
    to = {dims[0], dims[1] * area, dims[2] / block, dims[3] / block};
  }
  set(node, viewed(node, graph_.permute(where, viewed(node, x, apart), order), to), to);
}

}  // namespace trainyard
