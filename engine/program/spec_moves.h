// Whether a move's result has the spec that the move makes of its operand's: one rule per kind, of
// sharding/move.h's table.
#pragma once

#include <optional>
#include <string>

#include "engine/graph/op_kind.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct SpecMove {
  OpKind kind;
  const TensorSpec& from;
  const TensorSpec& to;
  Axes group;            // without the stages; of a slice and an enter_tensor none
  int dim = -1;          // -1: viewed as one dim
  bool maximum = false;  // of the op
};

bool is_spec_move(OpKind kind);
std::optional<std::string> find_move_problem(const SpecMove& move, const DeviceMesh& mesh);

}  // namespace trainyard
