// How the elements of a bucket lie among its shards where each parameter is divided by its rows
// (parallel.zero.layout: per-parameter): rank r of n has the r-th n-th of every parameter's rows,
// one parameter behind the other, and what is gathered is the shards one behind the other.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"
#include "real/parameters/parameter_layout.h"

namespace trainyard {

/// Rows of one parameter that one rank has.
struct PackedRows {
  std::int64_t in_bucket = 0;  // first element in the bucket, which has parameters one by one
  std::int64_t packed = 0;     // and in the shards
  std::int64_t size = 0;
};

/// `bucket`: the storage of its parameters or of their gradients, which `ranks` divide. In the
/// order of the bucket.
std::vector<PackedRows> packed_runs(const Program& program, ValueId bucket, std::int64_t ranks);

/// The pieces with the places that their elements have in the shards, cut where a rank's rows end.
std::vector<WeightPiece> pieces_in_shards(const std::vector<WeightPiece>& pieces,
                                          const std::vector<PackedRows>& runs);

}  // namespace trainyard
