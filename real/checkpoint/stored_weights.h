// The tensors that a model's parameters are stored as: global, unpadded, and unfused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

/// "decoder.layers.0.attention.k.weight" lies in the parameter
/// "decoder.layers.0.attention.qkv.weight" from the row after those of q.
struct StoredWeight {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t parameter = 0;   // index into Graph::parameters
  std::int64_t first_row = 0;  // in the parameter's global shape; 0 where it holds one weight
};

/// In the order of the graph's parameters; those that are not trained are not stored.
std::vector<StoredWeight> stored_weights(const Graph& graph);

/// A piece, and where its first element lies in what the rank holds of a parameter.
struct LocalPiece {
  Piece piece;
  std::int64_t offset = 0;  // elements
};

/// What elements [flat_begin, flat_end) of a tensor-parallel rank's part of `parameter` are to a
/// checkpoint: one piece of each weight that they touch. Rows that pad the vocabulary are of none.
///
/// The rank's part is row-major, split as Megatron splits (shard_megatron.h): by rows of each
/// weight that the parameter holds (q, k, v), by columns, or not at all. `tensor_degree` divides
/// them all.
std::vector<LocalPiece> local_pieces(const Parameter& parameter, int tensor_rank, int tensor_degree,
                                     DType dtype, std::int64_t flat_begin, std::int64_t flat_end);

}  // namespace trainyard
