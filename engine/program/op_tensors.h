// The op that an instruction is a part of, as far as the instruction shows it: which value stands
// for each operand and result of the forward op, itself or by its gradient.
//
// The order of a backward instruction's operands is that of graph/op_table.h.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

struct OpTensor {
  const Value* value = nullptr;     // nullptr: the instruction does not touch it
  const Value* gradient = nullptr;  // likewise
  bool differentiable = true;       // false: no gradient flows, so that E and R are one
  bool stored = false;              // a parameter: R, though it may be used entered
  const Value* any() const { return value != nullptr ? value : gradient; }
};

struct OpTensors {
  std::vector<OpTensor> operands;
  std::vector<OpTensor> results;
  std::string problem;  // what is wrong with the number of the instruction's operands; else empty
};

/// A parameter, be it always there or gathered; or another value that outlives the step.
bool is_stored(const Value& value);

/// Scales that follow the operands of a product in 8 bits: of both, or none.
std::size_t num_scales(const Program& program, const ProgramOp& op);

/// `op` computes: its kind has an index space. Scales are none of its operands.
OpTensors find_op_tensors(const Program& program, const ProgramOp& op);

}  // namespace trainyard
