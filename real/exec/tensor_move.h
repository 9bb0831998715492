// A move between two specs as one rank does it: which elements of its tensor go to which member of
// the group, and where what comes from each of them lies in the result. Worked out once, from what
// the specs say that each rank holds (engine/sharding/spec_boxes.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"
#include "real/exec/communicator.h"

namespace trainyard {

/// Neighbouring indices of a dim that stay neighbours.
struct MovedRange {
  std::int64_t from = 0;  // first index in the one tensor
  std::int64_t to = 0;    // and in the other
  std::int64_t size = 0;
};
using MovedRanges = std::vector<MovedRange>;

/// Elements of one tensor that lie in another, as a product of runs of each dim.
struct MovedBlock {
  std::vector<MovedRanges> dims;
  std::vector<std::int64_t> shape;  // of the elements that move
  std::int64_t elements() const;
};

struct TensorMove {
  std::vector<MovedBlock> sent;      // [member]: out of what is read, into one block
  std::vector<MovedBlock> received;  // [member]: out of a block, into what is written
  MovedBlock kept;                   // out of what is read, into what is written
  AllToAllCounts counts;             // all_to_all
  bool zeros = false;                // what is written is zero elsewhere
  bool plain = false;  // parts by member, each in one piece along the op's dim: no block is needed
};

/// The part of the rank at `at` in an op that moves one tensor between two specs of as many dims,
/// over its group; slices and the like over the axes that the specs say. Throws BackendError where
/// ranks do not hold what the move needs.
TensorMove plan_tensor_move(const Program& program, const ProgramOp& op, const Coordinate& at);

/// Copies the block's elements of `from` to where they lie in `to`.
void copy_block(const MovedBlock& block, const at::Tensor& from, at::Tensor to);

/// What runs on the rank alone: slice, pad, keep_on_one, copy_in, copy_out.
void move_locally(const TensorMove& move, const at::Tensor& from, at::Tensor& to);

/// What runs with the members of the group: any collective whose move is not plain.
void move_by_blocks(const TensorMove& move, OpKind kind, Communicator& communicator,
                    const at::Tensor& from, at::Tensor& to);

}  // namespace trainyard
