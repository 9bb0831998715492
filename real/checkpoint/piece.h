// A part of one global tensor, as one rank holds it: the unit that checkpoints are written and read
// in. Tensors are named and shaped as the unpartitioned, unpadded, unfused model has them
// ("decoder.layers.0.attention.q.weight"), so that every parallel layout can read what any other
// wrote.
//
// Tensor parallelism leaves a rank a rectangle of the tensor, the sharded optimizer a range of that
// rectangle's elements, counted row by row:
//
//   shape {4, 6}, start {0, 2}, extent {4, 2}      . . 0 1 . .
//   flat_begin 3, flat_end 6                       . . 2[3 . .
//                                                  . . 4 5]. .
//                                                  . . 6 7 . .
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/dtype.h"

namespace trainyard {

struct Piece {
  std::string tensor;  // of optimizer state with a prefix of the caller's: "exp_avg.decoder..."
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;   // of the global tensor; empty: a scalar
  std::vector<std::int64_t> start;   // of the rectangle, per dim
  std::vector<std::int64_t> extent;  // start[i] + extent[i] <= shape[i]
  std::int64_t flat_begin = 0;       // 0 <= flat_begin <= flat_end <= product(extent)
  std::int64_t flat_end = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

Piece whole_tensor(std::string tensor, DType dtype, std::vector<std::int64_t> shape);
Piece rectangle(std::string tensor, DType dtype, std::vector<std::int64_t> shape,
                std::vector<std::int64_t> start, std::vector<std::int64_t> extent);

/// Product of `sizes`, each at least 0; -1 where it has no 63 bits to fit in.
std::int64_t product(const std::vector<std::int64_t>& sizes);

inline std::int64_t num_elements(const Piece& piece) { return piece.flat_end - piece.flat_begin; }
inline std::int64_t num_bytes(const Piece& piece) {
  return num_elements(piece) * size_in_bytes(piece.dtype);
}
bool is_whole_rectangle(const Piece& piece);
bool is_whole_tensor(const Piece& piece);

/// Types that files can hold: the floating-point ones of 16 bits and more, and the integers.
bool is_storable(DType type);

/// Why `piece` is not a part of the tensor that it names; empty when it is.
std::string find_problem(const Piece& piece);

/// "embedding.tokens.weight", "...weight[0:4, 2:4]", "...weight[0:4, 2:4](3:6)": distinct for
/// distinct parts of one tensor, so it names the part in a file too.
std::string to_string(const Piece& piece);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "[4, 6]"

/// Why `pieces` of one tensor do not make up the whole of it, each element once; empty when they
/// do. Rectangles must be equal or disjoint, and the ranges of one rectangle must follow each
/// other.
std::string find_cover_problem(const std::vector<const Piece*>& pieces);

}  // namespace trainyard
