// What two pieces of one tensor have in common, as runs of elements that are contiguous in both.
#pragma once

#include <cstdint>
#include <functional>

#include "real/checkpoint/piece.h"

namespace trainyard {

/// The runs of a piece: stretches that lie contiguously in the global tensor, in ascending order,
/// which is the order in which the piece holds them. A rectangle of full rows is one run.
class RunCursor {
 public:
  explicit RunCursor(const Piece& piece);  // find_problem(piece) is empty

  bool done() const { return position_ >= piece_->flat_end; }
  std::int64_t global() const { return global_; }  // the run's first element in the tensor
  std::int64_t local() const { return position_ - piece_->flat_begin; }  // the same in the piece
  std::int64_t length() const { return length_; }
  void advance(std::int64_t elements);  // at most length()

 private:
  void locate();

  const Piece* piece_;
  std::size_t split_dim_ = 0;  // the last one that the rectangle does not take whole
  std::int64_t row_ = 1;       // elements of an uncut run
  std::vector<std::int64_t> strides_;
  std::int64_t position_ = 0;  // in the rectangle
  std::int64_t global_ = 0;
  std::int64_t length_ = 0;
};

/// Calls visit(first element in a, first element in b, elements) for every common run, ascending;
/// returns how many elements they have in common. `a` and `b` are of one tensor.
std::int64_t for_common_runs(
    const Piece& a, const Piece& b,
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit);

}  // namespace trainyard
