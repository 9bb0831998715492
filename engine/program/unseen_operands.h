// Extents of what a backward instruction leaves out of its operands, from those that it has.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/op_kind.h"
#include "engine/program/op_tensors.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

/// What this rank holds of a value.
Extents local_extents_of(const Value& value);

/// Extents of an operand that a backward instruction does not touch; empty: there is none such.
Extents unseen_extents(OpKind kind, std::size_t operand, const OpTensors& tensors);

/// The same of the whole operand behind those `before` it, of a kind that is looked at as a whole.
Extents unseen_whole(OpKind kind, const std::vector<Extents>& before, const Extents& result);

}  // namespace trainyard
