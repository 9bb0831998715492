#include "engine/memory/held_values.h"

#include <cmath>

namespace trainyard {

bool in_arena(const Value& value) {
  return value.pool == kNoIndex && value.space == Space::kDevice &&
         value.scope != Scope::kPersistent;
}

Bytes held_bytes(const Value& value, const FixedMemory& fixed) {
  const Bytes bytes = size_in_bytes(value);
  if (value.memory != MemoryClass::kActivation) return bytes;
  return std::llround(static_cast<double>(bytes) * fixed.activation_factor);
}

UpdatedWeights updated_by(const Program& program, const ProgramOp& op) {
  const bool updates = op.kind == OpKind::kAdamW || op.kind == OpKind::kSgd;
  if (!updates || op.stream == StreamId::kHost) return {};
  const Operands& written = op.writes.empty() ? op.accumulates : op.writes;
  const Value& gradient = program.values[op.reads.back().value];
  return {size_in_bytes(gradient) / size_in_bytes(gradient.dtype),
          program.values[written.back().value].owner};
}

}  // namespace trainyard
