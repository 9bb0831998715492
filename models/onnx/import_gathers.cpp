// Elements at places that are data: rows of tables, and of each sample's own.
#include <algorithm>
#include <utility>

#include "models/onnx/importer.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  std::int64_t all = 1;
  for (; begin != end; ++begin) all *= *begin;
  return all;
}

/// Whether it says of each sample which one it is: 0, 1, ... along the first dim.
bool numbers_samples(const OnnxConstant& constant, std::int64_t samples) {
  if (constant.dims.empty() || constant.dims[0] != samples) return false;
  const auto each = static_cast<std::int64_t>(constant.numbers.size()) / samples;
  for (std::size_t i = 0; i < constant.numbers.size(); ++i) {
    if (constant.integer(i) != static_cast<std::int64_t>(i) / each) return false;
  }
  return true;
}

}  // namespace

/// Entries of a table along its first dim, at indices that are data.
void OnnxImporter::look_up(const OnnxNode& node, int table, int indices, Dims to) {
  if (is_of_data(table))
    throw FoldError(
        "looks up samples, or parts of all of them, in data, which "
        "is not modelled");
  if (!is_whole(indices)) throw FoldError("looks up real numbers");
  const Dims dims = dims_of(table);
  if (const ConstantRef at = constant_of(indices)) {
    for (const double index : at->numbers) {
      if (index < 0 || index >= static_cast<double>(dims[0]))
        throw FoldError("has index " + std::to_string(to_integer(index)) + " of " +
                        std::to_string(dims[0]));
    }
  }
  TensorId rows = full_tensor(table);
  const std::string& where = module(node);
  if (dims.size() != 2)
    rows = graph_.view(where, rows, {dims[0], product(dims.begin() + 1, dims.end())});
  Dims of_index(to.begin(), to.end() - (std::ssize(dims) - 1));
  const TensorId index = viewed(node, full_tensor(indices), of_index);
  const TensorId y = graph_.embedding(where, index, rows);
  set(node, viewed(node, y, to), to);
}

/// The same along another dim of a table: its entries go to where that dim was.
void OnnxImporter::look_up_along(const OnnxNode& node, std::size_t axis, const Dims& to) {
  const int table = node.inputs[0], indices = node.inputs[1];
  if (is_of_data(table))
    throw FoldError("looks up data along axis " + std::to_string(axis) +
                    ", alike in all samples, which is not modelled");
  if (!is_whole(indices)) throw FoldError("looks up real numbers");
  const Dims dims = dims_of(table), of_index = dims_of(indices);
  const std::string& where = module(node);
  DimList order{static_cast<int>(axis)}, back;
  Dims made = of_index;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d == axis) continue;
    order.push_back(static_cast<int>(d));
    made.push_back(dims[d]);
  }
  const auto named = static_cast<int>(of_index.size()), before = static_cast<int>(axis);
  for (int d = 0; d < static_cast<int>(made.size()); ++d)
    back.push_back(d < before ? named + d : d < before + named ? d - before : d);
  const TensorId rows = viewed(node, graph_.permute(where, full_tensor(table), order),
                               {dims[axis], product(made.begin() + named, made.end())});
  const TensorId y = graph_.embedding(where, full_tensor(indices), rows);
  check_dims(made);
  set(node, graph_.permute(where, viewed(node, y, made), back), to);
}

/// Rows `index` [N, M] of each sample of x [N, rows, ..], as `to`.
void OnnxImporter::rows_of_samples(const OnnxNode& node, TensorId x, TensorId index,
                                   const Dims& to) {
  const Dims dims = shape_dims(x);
  x = viewed(node, x, {dims[0], dims[1], product(dims.begin() + 2, dims.end())});
  set(node, viewed(node, graph_.gather(module(node), x, index), to), to);
}

/// Whether or not its ops are made: they are where something reads them.
const OnnxNode* OnnxImporter::maker_of(int id) const {
  const auto makes = [&](const OnnxNode& node) {
    return std::count(node.outputs.begin(), node.outputs.end(), id) > 0;
  };
  const auto maker = std::find_if(model_.nodes.begin(), model_.nodes.end(), makes);
  return maker == model_.nodes.end() ? nullptr : &*maker;
}

/// The index of index [N] + (0, rows, 2 rows, ...), TorchScript's row of each sample in a list of
/// all samples' rows, and the rows of a sample; of one sample 0, since the sum is left out.
std::pair<int, std::int64_t> OnnxImporter::flat_index(int id) {
  const std::int64_t samples = options_.microbatch;
  const OnnxNode* sum = maker_of(id);
  if (sum != nullptr && sum->op == "Add" && has_input(*sum, 0) && has_input(*sum, 1)) {
    for (const std::size_t i : {0, 1}) {
      const ConstantRef begins = constant_of(sum->inputs[i]);
      if (begins == nullptr || begins->dims != Dims{samples}) continue;
      const std::int64_t rows = samples > 1 ? begins->integer(1) : 0;
      bool even = true;
      for (std::int64_t n = 0; n < samples; ++n)
        even = even && to_integer(begins->numbers[n]) == n * rows;
      if (even) return {sum->inputs[1 - i], rows};
    }
  }
  return {samples == 1 ? id : kNoOnnxValue, 0};
}

/// The same where samples and rows are one dim, and the index says both.
bool OnnxImporter::gather_flat(const OnnxNode& node) {
  const int id = node.inputs[0];
  const std::int64_t samples = options_.microbatch;
  const auto [index, each] = flat_index(node.inputs[1]);
  if (index == kNoOnnxValue || dims_of(index) != Dims{samples}) return false;
  if (value(id).finer == kNoIndex || value(id).groups[0] != 2) return false;
  const TensorId x = finer_tensor(id);
  const Dims dims = shape_dims(x);
  if (dims[0] != samples || (samples > 1 && each != dims[1])) return false;
  Dims to = dims_of(id);
  to[0] = samples;
  rows_of_samples(node, x, viewed(node, full_tensor(index), {samples, 1}), to);
  return true;
}

/// The index of x[arange(N), index], which PyTorch writes as pairs of a sample's number and an
/// index; kNoOnnxValue: these are no such pairs.
int OnnxImporter::row_of_sample(const OnnxNode& node) {
  const int id = in(node, 0), tuples = in(node, 1);
  const OnnxNode* maker = maker_of(tuples);
  if (maker == nullptr || dims_of(id).size() < 2) return kNoOnnxValue;
  const OnnxNode& pairs = *maker;
  if (pairs.op != "Concat" || pairs.inputs.size() != 2 || dims_of(tuples).back() != 2 ||
      !has_input(pairs, 0) || !has_input(pairs, 1))
    return kNoOnnxValue;
  const ConstantRef sample = constant_of(pairs.inputs[0]);
  const bool numbered = sample != nullptr && numbers_samples(*sample, options_.microbatch);
  return numbered ? pairs.inputs[1] : kNoOnnxValue;
}

bool OnnxImporter::gather_by_sample(const OnnxNode& node) {
  const int id = in(node, 0), index = row_of_sample(node);
  if (index == kNoOnnxValue) return false;
  const Dims of_index = dims_of(index);
  Dims to(of_index.begin(), of_index.end() - 1);
  to.insert(to.end(), dims_of(id).begin() + 2, dims_of(id).end());
  const std::int64_t each = product(of_index.begin() + 1, of_index.end());
  rows_of_samples(node, full_tensor(id),
                  viewed(node, full_tensor(index), {options_.microbatch, each}), to);
  return true;
}

void OnnxImporter::gather_nd(const OnnxNode& node) {
  const int id = in(node, 0), tuples = in(node, 1);
  if (constant_of(tuples) != nullptr) return gather_rows(node);
  const std::int64_t batch_dims = node.integer("batch_dims", 0);
  const Dims dims = dims_of(id), of_tuples = dims_of(tuples);
  if (of_tuples.size() < 2 || dims.size() < 2) throw FoldError("has tuples that name no dims");
  const std::int64_t each = product(of_tuples.begin() + 1, of_tuples.end());
  if (batch_dims == 1 && of_tuples.back() == 1) {
    Dims to(of_tuples.begin(), of_tuples.end() - 1);
    to.insert(to.end(), dims.begin() + 2, dims.end());
    return rows_of_samples(node, full_tensor(id),
                           viewed(node, full_tensor(tuples), {of_tuples[0], each}), to);
  }
  if (batch_dims == 0 && of_tuples.back() == 1) {
    const Dims index(of_tuples.begin(), of_tuples.end() - 1);
    Dims to = index;
    to.insert(to.end(), dims.begin() + 1, dims.end());
    return look_up(node, id, tuples, to);
  }
  if (batch_dims != 0 || !gather_by_sample(node))
    throw FoldError(
        "looks up tuples of indices that are data, but for a row "
        "of each sample, which is not "
        "modelled");
}

/// Elements of x along an axis at a constant index, alike in all that lies before the axis.
TensorId OnnxImporter::taken(const OnnxNode& node, TensorId x, std::size_t axis,
                             const OnnxConstant& at) {
  Dims dims = shape_dims(x);
  const std::int64_t width =
      product(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
  dims.resize(axis + 1);
  dims.push_back(width);
  check_dims(dims);
  OnnxConstant index = at;
  index.dims.assign(axis, 1);
  index.dims.push_back(static_cast<std::int64_t>(at.numbers.size()));
  return graph_.gather(module(node), viewed(node, x, dims), constant_tensor(index));
}

/// Constant tuples that name the first dims as one index into all of them; nullptr: they name none,
/// or the batch.
ConstantRef OnnxImporter::places_of(const OnnxConstant& tuples, const Dims& dims, int batch_of) {
  const std::int64_t length = tuples.dims.empty() ? 0 : tuples.dims.back();
  if (length < 1 || length > std::ssize(dims)) return nullptr;
  for (std::size_t d = 0; std::cmp_less(d, length); ++d) {
    if (has_batch(batch_of, d, dims)) return nullptr;
  }
  OnnxConstant out;
  out.type = OnnxType::kInt64;
  const auto each = static_cast<std::ptrdiff_t>(length);
  for (auto at = tuples.numbers.begin(); tuples.numbers.end() - at >= each; at += each) {
    std::int64_t place = 0;
    for (std::ptrdiff_t d = 0; d < each; ++d) {
      const std::int64_t extent = dims.begin()[d], given = to_integer(at[d]);
      const std::int64_t one = given < 0 ? given + extent : given;
      if (one < 0 || one >= extent)
        throw FoldError("has index " + std::to_string(given) + " of " + std::to_string(extent));
      place = place * extent + one;
    }
    out.numbers.push_back(static_cast<double>(place));
  }
  out.dims = {static_cast<std::int64_t>(out.numbers.size())};
  return done(std::move(out));
}

/// Elements at constant places of dims none of which is the batch.
bool OnnxImporter::gather_places(const OnnxNode& node) {
  const int id = node.inputs[0];
  const OnnxConstant& at = constant_in(node, 1);
  const Dims dims = dims_of(id);
  const ConstantRef index =
      node.integer("batch_dims", 0) == 0 ? places_of(at, dims, id) : ConstantRef();
  if (index == nullptr) return false;
  const auto behind = dims.begin() + static_cast<std::ptrdiff_t>(at.dims.back());
  Dims flat{product(dims.begin(), behind)}, to(at.dims.begin(), at.dims.end() - 1);
  flat.insert(flat.end(), behind, dims.end());
  to.insert(to.end(), behind, dims.end());
  const TensorId x = viewed(node, full_tensor(id), flat);
  set(node, viewed(node, taken(node, x, 0, *index), to), to);
  return true;
}

/// torch.gather: of each row along an axis the elements that the same row of the index names.
void OnnxImporter::gather_elements(const OnnxNode& node) {
  const int id = in(node, 0), indices = in(node, 1);
  Dims dims = dims_of(id);
  const Dims to = dims_of(indices);
  if (dims.size() != to.size() || dims.empty()) throw FoldError("looks up another number of dims");
  const std::size_t axis = axis_of(node.integer("axis", 0), dims.size());
  const std::string& where = module(node);
  TensorId x = is_of_data(indices) ? beside_data(id) : full_tensor(id);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d == axis || dims[d] == to[d]) continue;
    if (dims[d] < to[d]) throw FoldError("looks up more than is there");
    x = graph_.narrow(where, x, static_cast<int>(d), 0, to[d]);
  }
  if (axis == 0 && is_of_data(id))
    throw FoldError("looks up elements of other samples, which is not modelled");
  TensorId index = tensor(indices);
  if (graph_.shape(index).size() != to.size()) index = full_tensor(indices);
  Dims has = shape_dims(index);
  if (axis + 2 == to.size() && has.back() == 1 && has[axis] == to[axis]) {  // whole rows
    has.pop_back();
    return set(node, graph_.gather(where, x, viewed(node, index, has)), to);
  }
  for (std::size_t d = 1; d < has.size(); ++d) {  // but for the batch, of which a row may be all's
    if (has[d] != to[d]) index = full_tensor(indices);
  }
  x = with_last(node, x, axis);
  Dims rows = shape_dims(x);
  rows.push_back(1);
  x = graph_.gather(where, viewed(node, x, rows), with_last(node, index, axis));
  Dims turned = to;
  turned.erase(turned.begin() + static_cast<std::ptrdiff_t>(axis));
  turned.push_back(to[axis]);
  x = viewed(node, x, turned);
  set(node, with_last_at(node, x, axis), to);
}

}  // namespace trainyard
