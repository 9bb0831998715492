#include "real/checkpoint/stored_weights.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// "x.qkv.weight" and "k" make "x.k.weight".
std::string part_name(const std::string& parameter, const char* part) {
  const std::size_t suffix = parameter.rfind('.');
  check(suffix != std::string::npos && suffix > 0, "a parameter is called module.weight");
  const std::size_t component = parameter.rfind('.', suffix - 1) + 1;  // 0 where there is none
  return parameter.substr(0, component) + part + parameter.substr(suffix);
}

/// The dim that tensor parallelism splits; -1: none.
int split_dim(const Parameter& parameter) {
  switch (parameter.split) {
    case SplitHint::kNone:
      return -1;
    case SplitHint::kColumn:
    case SplitHint::kVocabulary:
      return 0;
    case SplitHint::kRow:
      return parameter.shape.size() >= 2 ? 1 : -1;
    case SplitHint::kHeads:
      return 1;
  }
  bug("a split without a dim");
}

struct NamedRows {
  std::string name;
  std::int64_t rows;
  std::int64_t padded;  // at least rows
};

/// The weights that `parameter` holds, one behind the other.
std::vector<NamedRows> weights_of(const Parameter& parameter) {
  std::vector<NamedRows> weights;
  for (const ParameterPart& part : parameter.parts) {
    weights.push_back({part_name(parameter.name, part.name), part.rows, part.rows});
  }
  if (weights.empty()) {
    weights.push_back({parameter.name, parameter.shape.front(), parameter.padded.front()});
  }
  return weights;
}

}  // namespace

std::vector<StoredWeight> stored_weights(const Graph& graph) {
  std::vector<StoredWeight> weights;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    if (parameter.tensor < 0) continue;
    std::vector<std::int64_t> shape(parameter.shape.begin(), parameter.shape.end());
    std::int64_t first_row = 0;
    for (NamedRows& weight : weights_of(parameter)) {
      shape.front() = weight.rows;
      weights.push_back({std::move(weight.name), shape, i, first_row});
      first_row += weight.rows;
    }
  }
  return weights;
}

std::vector<LocalPiece> local_pieces(const Parameter& parameter, int tensor_rank, int tensor_degree,
                                     DType dtype, std::int64_t flat_begin, std::int64_t flat_end) {
  const int dim = tensor_degree > 1 ? split_dim(parameter) : -1;
  std::vector<LocalPiece> pieces;
  std::int64_t local = 0;  // elements of the rank's part in front of the weight at hand
  for (const NamedRows& weight : weights_of(parameter)) {
    std::vector<std::int64_t> shape(parameter.shape.begin(), parameter.shape.end());
    shape.front() = weight.padded;
    std::vector<std::int64_t> start(shape.size(), 0);
    std::vector<std::int64_t> extent = shape;
    if (dim >= 0) {
      const auto d = static_cast<std::size_t>(dim);
      check(shape[d] % tensor_degree == 0, "tensor parallelism divides what it splits");
      extent[d] /= tensor_degree;
      start[d] = tensor_rank * extent[d];
    }
    const std::int64_t held = product(extent);
    shape.front() = weight.rows;
    start.front() = std::min(start.front(), weight.rows);
    extent.front() = std::min(extent.front(), weight.rows - start.front());

    Piece piece = rectangle(weight.name, dtype, shape, start, extent);
    piece.flat_begin = std::clamp<std::int64_t>(flat_begin - local, 0, piece.flat_end);
    piece.flat_end = std::clamp<std::int64_t>(flat_end - local, 0, piece.flat_end);
    if (num_elements(piece) > 0) {
      const std::int64_t offset = local + piece.flat_begin;
      pieces.push_back({std::move(piece), offset});
    }
    local += held;
  }
  return pieces;
}

}  // namespace trainyard
