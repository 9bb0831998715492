// Elements written over others: ranges of a tensor, rows and elements at places that are constant
// or data.
#include <algorithm>
#include <numeric>

#include "models/onnx/importer.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

/// Which one each element of the result is: of the data, or, counted on behind those, of the
/// updates.
Numbered<std::int64_t> sources(const OnnxNode& node, const Dims& dims, const ConstantRef& indices,
                               const Dims& updates) {
  OnnxConstant before = empty_constant(OnnxType::kDouble, dims);
  OnnxConstant written = empty_constant(OnnxType::kDouble, updates);
  std::iota(before.numbers.begin(), before.numbers.end(), 0.0);
  std::iota(written.numbers.begin(), written.numbers.end(),
            static_cast<double>(before.numbers.size()));
  OnnxNode writes = node;  // of sums, where they go
  writes.attributes.erase(std::remove_if(writes.attributes.begin(), writes.attributes.end(),
                                         [](const auto& a) { return a.name == "reduction"; }),
                          writes.attributes.end());
  const auto made = fold_indexed(writes, {done(before), indices, done(written)});
  if (!made) throw FoldError("writes elements in a way that is not modelled");
  Numbered<std::int64_t> out;
  out.reserve((*made)->numbers.size());
  for (const double number : (*made)->numbers) out.push_back(to_integer(number));
  return out;
}

}  // namespace

std::int64_t OnnxImporter::Box::elements() const {
  std::int64_t all = 1;
  for (std::size_t d = 0; d < begin.size(); ++d) all *= end[d] - begin[d];
  return all;
}

/// The box of all elements that are updates, in their order; nullopt: they are none.
std::optional<OnnxImporter::Box> OnnxImporter::box_of(const Numbered<std::int64_t>& from,
                                                      const Dims& dims) {
  const auto own = static_cast<std::int64_t>(from.size());
  Box box{dims, Dims(dims.size(), 0)};
  Dims at(dims.size(), 0);
  std::int64_t written = 0;
  for (const std::int64_t source : from) {
    if (source >= own && source != own + written++) return std::nullopt;
    for (std::size_t d = 0; source >= own && d < dims.size(); ++d) {
      box.begin[d] = std::min(box.begin[d], at[d]);
      box.end[d] = std::max(box.end[d], at[d] + 1);
    }
    for (std::size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  return written > 0 && box.elements() == written ? std::optional(box) : std::nullopt;
}

/// Updates of a box are put between what lies before and behind it, dim by dim.
TensorId OnnxImporter::with_box(const OnnxNode& node, TensorId x, TensorId update, const Box& box,
                                bool adds) {
  const std::string& where = module(node);
  const Dims dims = shape_dims(x);
  const auto& [begin, end] = box;
  Dims sizes;
  for (std::size_t d = 0; d < dims.size(); ++d) sizes.push_back(end[d] - begin[d]);
  TensorId y = viewed(node, update, sizes);
  if (adds) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (sizes[d] != dims[d])
        y = graph_.zero_pad(where, y, static_cast<int>(d), begin[d], dims[d] - end[d]);
    }
    return graph_.add(where, x, y);
  }
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (sizes[d] == dims[d]) continue;
    TensorId beside = x;  // the box's range of the dims before this one
    for (std::size_t before = 0; before < d; ++before) {
      if (sizes[before] != dims[before])
        beside =
            graph_.narrow(where, beside, static_cast<int>(before), begin[before], sizes[before]);
    }
    const auto dim = static_cast<int>(d);
    std::vector<TensorId> parts;
    if (begin[d] > 0) parts.push_back(graph_.narrow(where, beside, dim, 0, begin[d]));
    parts.push_back(y);
    if (end[d] < dims[d])
      parts.push_back(graph_.narrow(where, beside, dim, end[d], dims[d] - end[d]));
    y = graph_.concat(where, parts, dim);
  }
  return y;
}

/// Elements at constant places, alike in each sample.
TensorId OnnxImporter::with_elements(const OnnxNode& node, TensorId x, TensorId update,
                                     const Numbered<std::int64_t>& from, bool of_data, bool adds) {
  const Dims dims = shape_dims(x);
  const std::int64_t samples = of_data ? dims.at(0) : 1;
  const auto all = static_cast<std::int64_t>(from.size());
  const std::int64_t each = all / samples, given = num_elements(graph_.shape(update));
  const std::int64_t per_sample = given / samples;
  OnnxConstant places = empty_constant(OnnxType::kInt64, {1, per_sample});
  Numbered<bool> filled(places.numbers.size(), false);
  bool fits = given % samples == 0;
  for (std::int64_t i = 0; i < all && fits; ++i) {
    const std::int64_t sample = i / each, source = from.begin()[i] - all - sample * per_sample;
    if (from.begin()[i] < all) continue;
    fits = source >= 0 && source < per_sample;
    if (!fits) break;
    double& place = places.numbers.begin()[source];
    fits = sample == 0 || place == static_cast<double>(i % each);
    place = static_cast<double>(i % each);
    filled.begin()[source] = true;
  }
  if (!fits || std::count(filled.begin(), filled.end(), false) > 0)
    throw FoldError(
        "writes elements that differ from sample to sample, or "
        "some of them twice, "
        "which is not modelled");
  const std::string& where = module(node);
  const TensorId rows = viewed(node, update, {samples, per_sample, 1});
  const TensorId made = graph_.scatter(where, viewed(node, x, {samples, each, 1}),
                                       constant_tensor(places), rows, adds);
  return viewed(node, made, dims);
}

/// Whether what is written is added to what is there.
bool OnnxImporter::adds_up(const OnnxNode& node) {
  const std::string how = node.text("reduction", "none");
  if (how != "none" && how != "add")
    throw FoldError("writes by " + how + ", of which none and add are modelled");
  return how == "add";
}

void OnnxImporter::scatter(const OnnxNode& node) {
  const int id = in(node, 0), indices = in(node, 1), update = in(node, 2);
  const bool adds = adds_up(node), of_data = is_of_data(id) || is_of_data(update);
  const Dims dims = dims_of(id);
  if (is_masked(id) || is_masked(update))
    throw FoldError("writes conditions, which is not modelled");
  if (constant_of(indices) == nullptr)
    return node.op == "ScatterND" ? scatter_rows(node, adds) : scatter_elements(node, adds);
  const int out = node.outputs[0];
  const ConstantRef at = constant_of(indices);
  const Numbered<std::int64_t> from = sources(node, dims, at, dims_of(update));
  const auto box = box_of(from, dims);
  const bool all = box && box->elements() == static_cast<std::int64_t>(from.size());
  if (all && !adds && dims_of(update) == dims) return pass_on(node, 2);
  const TensorId x = of_data ? beside_data(id) : full_tensor(id);
  const TensorId y = of_data ? beside_data(update) : full_tensor(update);
  if (box) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (box->end[d] - box->begin[d] != dims[d] && has_batch(out, d, dims))
        throw FoldError("writes some samples only, which is not modelled");
    }
    return set(node, with_box(node, x, y, *box, adds), dims);
  }
  const ConstantRef rows = node.op == "ScatterND" ? places_of(*at, dims, out) : nullptr;
  set(node,
      rows != nullptr ? with_rows(node, x, y, *rows, adds)
                      : with_elements(node, x, y, from, of_data, adds),
      dims);
}

/// Whole rows of the first dims at constant places.
TensorId OnnxImporter::with_rows(const OnnxNode& node, TensorId x, TensorId update,
                                 const OnnxConstant& places, bool adds) {
  const Dims dims = shape_dims(x);
  const auto count = static_cast<std::int64_t>(places.numbers.size());
  const std::int64_t width = num_elements(graph_.shape(update)) / count;
  const std::int64_t rows = num_elements(graph_.shape(x)) / width;
  const TensorId made =
      graph_.scatter(module(node), viewed(node, x, {rows, width}), constant_tensor(places),
                     viewed(node, update, {count, width}), adds);
  return viewed(node, made, dims);
}

/// x[arange(N), index] = rows.
void OnnxImporter::scatter_rows(const OnnxNode& node, bool adds) {
  const int id = node.inputs[0], update = node.inputs[2];
  const int index = row_of_sample(node);
  if (index == kNoOnnxValue)
    throw FoldError(
        "writes at tuples of indices that are data, but for a row "
        "of each sample, which is not "
        "modelled");
  const std::int64_t samples = options_.microbatch;
  const Dims dims = dims_of(id), of_index = dims_of(index);
  const std::int64_t each = product(of_index.begin() + 1, of_index.end());
  const std::int64_t width = product(dims.begin() + 2, dims.end());
  const TensorId x = viewed(node, beside_data(id), {samples, dims.at(1), width});
  const TensorId rows = viewed(node, beside_data(update), {samples, each, width});
  const TensorId at = viewed(node, full_tensor(index), {samples, each});
  set(node, viewed(node, graph_.scatter(module(node), x, at, rows, adds), dims), dims);
}

/// torch.scatter: of each row along an axis the elements that the same row of the index names.
void OnnxImporter::scatter_elements(const OnnxNode& node, bool adds) {
  const int id = node.inputs[0], indices = node.inputs[1], update = node.inputs[2];
  const Dims dims = dims_of(id), of_index = dims_of(indices);
  if (dims.empty() || dims.size() != of_index.size() || of_index != dims_of(update))
    throw FoldError("has updates that do not fit");
  const std::size_t axis = axis_of(node.integer("axis", 0), dims.size());
  if (axis == 0) throw FoldError("writes into other samples, which is not modelled");
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d != axis && dims[d] != of_index[d])
      throw FoldError("writes into some rows only, which is not modelled");
  }
  const auto as_rows = [&](int of) {
    const TensorId last = with_last(node, beside_data(of), axis);
    Dims rows = shape_dims(last);
    rows.push_back(1);
    return viewed(node, last, rows);
  };
  const TensorId x = as_rows(id), rows = as_rows(update);
  const TensorId at = with_last(node, full_tensor(indices), axis);
  const TensorId y = graph_.scatter(module(node), x, at, rows, adds);
  Dims turned = shape_dims(y);
  turned.pop_back();
  set(node, with_last_at(node, viewed(node, y, turned), axis), dims);
}

}  // namespace trainyard
