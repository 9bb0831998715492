// Which part of which weight a rank holds, and where in its buffers.
//
// Weights are named and indexed in the global, unpadded, unfused form, the same in every layout: q,
// k and v apart though the model multiplies by one qkv, the vocabulary without padding. A rank
// holds of each a rectangle (tensor parallelism splits rows or columns) of which its optimizer may
// own a sub-range only (ZeRO shards the bucket that the weight lies in, or gives it to one
// replica).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "real/parameters/rank_coordinates.h"

namespace trainyard {

/// A rectangle of one weight as it lies in a bucket: `rows` runs of `columns` elements.
struct WeightPiece {
  std::string weight;               // "decoder.layers.0.attention.q.weight"
  std::vector<std::int64_t> shape;  // global, unpadded, unfused; dims behind the first as one
  std::int64_t first_row = 0;       // global; a vector is one column of rows
  std::int64_t first_column = 0;
  std::int64_t rows = 0;  // held here, without padding
  std::int64_t columns = 0;
  std::int64_t global_columns = 1;
  std::int64_t offset = 0;  // elements from the start of the bucket to its first
  Init init = Init::kNormal;
  float deviation = 0;
  bool decay = true;
  bool owned = true;  // false: a rank of another stage or tensor coordinate stores it
};

/// The values of one bucket on a rank; none: does not exist in this Program.
struct BucketState {
  ValueId parameter = kNoIndex, gradient = kNoIndex;
  ValueId master = kNoIndex, first_moment = kNoIndex, second_moment = kNoIndex;
  std::int64_t elements = 0;
  std::int64_t own_begin = 0,
               own_end = 0;     // what this rank's optimizer updates; all without ZeRO
  std::int64_t held_begin = 0;  // of the bucket, the first element in `parameter`: own_begin where
  std::int64_t held_end = 0;    // ranks keep no more of it than they own (ZeRO-3), to own_end
  bool is_copy = false;         // another replica, which has the same part of it, stores it
  std::int32_t owner = -1;  // coordinate along dp of the ranks that alone update it, whole; others
                            // have no state of it
  std::vector<WeightPiece> pieces;  // by offset
};

/// The buckets of the rank at `at`. `model`: the graph that the Program was compiled from.
std::vector<BucketState> bucket_states(const Program& program, const Graph& model,
                                       const Coordinate& at);

/// "decoder.layers.0.attention.qkv.weight", "q" -> "decoder.layers.0.attention.q.weight".
std::string part_name(const std::string& parameter, const std::string& part);

}  // namespace trainyard
