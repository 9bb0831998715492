// What the memory of a rank is counted by, wherever it is counted.
#pragma once

#include <cstdint>

#include "engine/base/units.h"
#include "engine/memory/memory.h"
#include "engine/program/program.h"

namespace trainyard {

/// Whether it takes its storage when it is written and gives it back at its `free`: it has no slot
/// of a pool, does not lie on the host, and does not last.
bool in_arena(const Value& value);

/// Bytes that a framework holds for it.
Bytes held_bytes(const Value& value, const FixedMemory& fixed);

struct UpdatedWeights {
  std::int64_t elements = 0;  // of the gradient
  std::int16_t owner = -1;    // Value::owner of the weights
};

/// What an op of the device updates; no elements: nothing.
UpdatedWeights updated_by(const Program& program, const ProgramOp& op);

}  // namespace trainyard
