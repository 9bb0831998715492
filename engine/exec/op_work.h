// How much an op of a Program computes and moves: from its operands' local shapes alone.
#pragma once

#include <vector>

#include "engine/graph/count_work.h"
#include "engine/graph/kernel_work.h"
#include "engine/program/attended_pairs.h"
#include "engine/program/program.h"

namespace trainyard {

class OpWork {
 public:
  /// `program` must outlive it.
  explicit OpWork(const Program& program);

  /// Work of one op: of a communication or a copy only `bytes`, message_bytes(); of a free none. Of
  /// attention whose work is a symbol, the mean of what its calls bind it to.
  KernelWork operator()(const ProgramOp& op);
  /// The same of attention with so many pairs of a query and a key for each head.
  KernelWork with_pairs(const ProgramOp& op, std::int64_t pairs);

 private:
  void operands(const Operands& list, std::vector<OperandShape>& out) const;

  KernelWork of_kernel(const ProgramOp& op);

  const Program& program_;
  AttendedPairs pairs_;
  Indexed<ValueId, Shape> shapes_;
  std::vector<OperandShape> reads_, writes_, accumulates_;
};

/// Bytes that the cost model counts for a communication: the gathered size for all_gather and
/// reduce_scatter, the buffer for the rest; of uneven pieces what the busiest member receives, as
/// that of even ones.
Bytes message_bytes(const Program& program, const ProgramOp& op);

}  // namespace trainyard
