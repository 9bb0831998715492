#include "engine/sharding/colossal_rules.h"

#include <algorithm>

#include "engine/sharding/op_index_table.h"

namespace trainyard {

namespace {

/// What each axis does, by index: -1 nothing. Axes of one rank are left out, the others numbered
/// anew.
struct Uses {
  std::vector<int> index;  // by axis
  Axes axes;               // their numbers in the mesh

  bool all_split() const {
    return std::none_of(index.begin(), index.end(), [](int one) { return one < 0; });
  }
  bool any_split() const {
    return std::any_of(index.begin(), index.end(), [](int one) { return one >= 0; });
  }
  /// "S01", "S1", or R; without axes of other indices.
  std::string letter_of(const std::vector<int>& indices) const {
    std::string text;
    for (std::size_t a = 0; a < index.size(); ++a) {
      if (std::count(indices.begin(), indices.end(), index[a]) > 0) text += std::to_string(a);
    }
    return text.empty() ? "R" : "S" + text;
  }
};

std::optional<Uses> uses_of(const Strategy& strategy, const DeviceMesh& mesh) {
  if (strategy.entered != 0 || strategy.passed != 0) return std::nullopt;
  Uses uses;
  for (const AxisId axis : mesh.axis_ids()) {
    if (mesh.size(axis) == 1) continue;
    uses.axes.push_back(axis);
    uses.index.push_back(-1);
    for (const IndexSplit& split : strategy.split) {
      if (!std::is_sorted(split.axes.begin(), split.axes.end())) return std::nullopt;
      if (has(set_of(split.axes), axis)) uses.index.back() = split.index;
    }
  }
  if (uses.index.size() > 2) return std::nullopt;
  return uses;
}

int index_at(const IndexedDim& dim) { return dim[0].indices.empty() ? -2 : dim[0].indices[0]; }

/// The last dim's index, and the others', of an operand.
struct Rows {
  std::vector<int> rows;
  int last;
};
Rows rows_of(const IndexedTensor& tensor, std::size_t last_dims) {
  Rows out{{}, index_at(tensor.dims.back())};
  for (std::size_t d = 0; d + last_dims < tensor.dims.size(); ++d)
    out.rows.push_back(index_at(tensor.dims[d]));
  return out;
}

/// "_1": which of several leading dims is split; "": none or the only one. nullopt: two are.
std::optional<std::string> row_suffix(const Uses& uses, const std::vector<int>& rows) {
  int row = -1;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (std::count(uses.index.begin(), uses.index.end(), rows[r]) == 0) continue;
    if (row >= 0) return std::nullopt;
    row = static_cast<int>(r);
  }
  return row < 0 || rows.size() == 1 ? "" : "_" + std::to_string(row);
}

/// Whether one axis splits rows, and another axis nothing.
bool rows_alone(const Uses& uses, const std::vector<int>& rows) {
  int of_rows = 0, idle = 0;
  for (const int index : uses.index) {
    if (std::count(rows.begin(), rows.end(), index) > 0) ++of_rows;
    if (index < 0) ++idle;
  }
  return of_rows == 1 && idle == 1;
}

std::optional<std::string> matrix_name(const Uses& uses, const std::vector<int>& rows, int i, int o,
                                       bool conv) {
  const auto suffix = row_suffix(uses, rows);
  if (!suffix || (!conv && rows_alone(uses, rows))) return std::nullopt;
  const std::string r = uses.letter_of(rows), in = uses.letter_of({i}), out = uses.letter_of({o});
  return r + out + " = " + r + in + " x " + in + out + *suffix;
}

std::optional<std::string> embedding_name(const Uses& uses, const IndexSpace& space) {
  const Rows result = rows_of(space.results[0], 1);
  const int vocabulary = index_at(space.operands[1].dims[0]);
  if (std::count(uses.index.begin(), uses.index.end(), vocabulary) > 0) return std::nullopt;
  const auto suffix = row_suffix(uses, result.rows);
  if (!suffix) return std::nullopt;
  const std::string r = uses.letter_of(result.rows), h = uses.letter_of({result.last});
  return r + h + " = " + r + " x R" + h + *suffix;
}

/// "Sb0Si1": letters of a batched product's operand.
std::string batched_letters(const Uses& uses, const IndexSpace& space, const char* names) {
  std::string text;
  for (const char* name = names; *name != '\0'; ++name) {
    std::string axes;
    for (std::size_t a = 0; a < uses.index.size(); ++a) {
      if (uses.index[a] >= 0 && space.indices[uses.index[a]].name == std::string(1, *name))
        axes += std::to_string(a);
    }
    if (!axes.empty()) text += std::string("S") + *name + axes;
  }
  return text;
}

/// One axis splits the batch; of two, the other the batch as well, i, j or k.
std::optional<std::string> batched_name(const Uses& uses, const IndexSpace& space) {
  const int batch = index_at(space.results[0].dims[0]);
  if (!uses.all_split() || std::count(uses.index.begin(), uses.index.end(), batch) == 0)
    return std::nullopt;
  const std::string out = batched_letters(uses, space, "bij");
  const std::string left = batched_letters(uses, space, "bik");
  const std::string right = batched_letters(uses, space, "bkj");
  const bool split_k = left.find('k') != std::string::npos;
  const bool split_j = right.find('j') != std::string::npos;
  return out + (split_k ? "R" : "") + " = " + left + (split_j ? "R" : "") + " x " + right;
}

std::string bracketed(const Uses& uses, const IndexedTensor& tensor) {
  std::string text;
  for (const IndexedDim& dim : tensor.dims)
    text += (text.empty() ? "" : ", ") + uses.letter_of({index_at(dim)});
  return "[" + text + "]";
}

std::string joined(const Uses& uses, const IndexSpace& space, const std::string& by) {
  std::string text = bracketed(uses, space.results[0]) + " = ";
  for (std::size_t o = 0; o < space.operands.size(); ++o)
    text += (o == 0 ? "" : by) + bracketed(uses, space.operands[o]);
  return text;
}

bool fits(const Uses& uses, ShardOption option) {
  switch (option) {
    case ShardOption::kShard: return uses.any_split();
    case ShardOption::kFullShard: return uses.all_split();
    case ShardOption::kShardLastAxis:
      return uses.index.size() == 2 && uses.index[0] < 0 && uses.index[1] >= 0;
    default: return true;
  }
}

}  // namespace

const std::vector<std::string>& colossal_kinds() {
  static const std::vector<std::string> kKinds = {
      "linear",     "conv2d",  "bmm",   "embedding", "layer_norm",
      "batch_norm", "pooling", "where", "add",       "mul"};
  return kKinds;
}

std::optional<std::string> colossal_name(std::string_view kind, const IndexSpace& space,
                                         const Strategy& strategy, const DeviceMesh& mesh,
                                         ShardOption option) {
  const auto uses = uses_of(strategy, mesh);
  if (!uses || !fits(*uses, option)) return std::nullopt;
  const IndexedTensor& result = space.results[0];
  if (kind == "linear") {
    const Rows x = rows_of(space.operands[0], 1);
    return matrix_name(*uses, x.rows, x.last, index_at(result.dims.back()), false);
  }
  if (kind == "conv2d") {
    return matrix_name(*uses, {index_at(result.dims[0])}, index_at(space.operands[0].dims[1]),
                       index_at(result.dims[1]), true);
  }
  if (kind == "bmm") return batched_name(*uses, space);
  if (kind == "embedding") return embedding_name(*uses, space);
  if (kind == "layer_norm") {
    const Rows x = rows_of(space.operands[0], 1);
    if (!row_suffix(*uses, x.rows)) return std::nullopt;
    if (!uses->any_split()) return "RR = RR x R";
    return bracketed(*uses, result) + " = " + bracketed(*uses, space.operands[0]) + " x [R]";
  }
  if (kind == "batch_norm") {
    const std::string c = uses->letter_of({index_at(result.dims[1])});
    return "R" + c + " = R" + c + " x " + c;
  }
  if (kind == "pooling") return joined(*uses, space, "");
  if (kind == "where") return joined(*uses, space, " x ");
  if (kind == "add" || kind == "mul") return joined(*uses, space, " <binary-elementwise-op> ");
  return std::nullopt;
}

namespace {

/// [begin, end) of dims on each side that hold the same elements, from left to right.
struct EqualDims {
  std::size_t from_begin, from_end, to_begin, to_end;
};
std::vector<EqualDims> equal_products(const Extents& from, const Extents& to) {
  std::vector<EqualDims> out;
  std::size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    EqualDims dims{f, f, t, t};
    std::int64_t a = 1, b = 1;
    do {
      if ((a <= b && f < from.size()) || t == to.size()) {
        a *= from[f++];
      } else {
        b *= to[t++];
      }
    } while (a != b && (f < from.size() || t < to.size()));
    dims.from_end = f;
    dims.to_end = t;
    out.push_back(dims);
  }
  return out;
}

std::optional<TensorSpec> colossal_view(const TensorSpec& input, const Extents& extents,
                                        const Extents& to) {
  TensorSpec out = replicated_spec(to.size());
  for (const EqualDims& dims : equal_products(extents, to)) {
    for (std::size_t d = dims.from_begin; d < dims.from_end; ++d) {
      if (!is_split(input.dims[d])) continue;
      if (d != dims.from_begin || dims.to_begin == dims.to_end) return std::nullopt;
      out.dims[dims.to_begin] = input.dims[d];
    }
  }
  return out;
}

}  // namespace

std::optional<TensorSpec> colossal_propagation(std::string_view kind, const TensorSpec& input,
                                               const Extents& extents,
                                               const OpParameters& parameters) {
  if (kind == "view") return colossal_view(input, extents, parameters.to);
  TensorSpec out;
  if (kind == "permute") {
    for (const int dim : parameters.dims) out.dims.push_back(input.dims.begin()[dim]);
    return out;
  }
  out = input;
  if (kind == "split") {
    out.dims.begin()[parameters.dim] = {};
    return out;
  }
  if (kind != "sum") return std::nullopt;
  out.dims.clear();
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const bool summed =
        std::count(parameters.dims.begin(), parameters.dims.end(), static_cast<int>(d)) > 0;
    if (!summed) out.dims.push_back(input.dims[d]);
    if (summed && parameters.keepdim) out.dims.push_back({});
  }
  return out;
}

}  // namespace trainyard
