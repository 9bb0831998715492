#include "engine/program/no_ops.h"

#include "engine/program/owners.h"

namespace trainyard {

bool has_no_peers(const Program& program, const ProgramOp& op) {
  if (!is_collective(op.kind)) return false;
  const Group& group = program.groups[op.group];
  for (const Axis axis : group.axes) {
    const bool listed = axis == Axis::kPp && !group.members.empty();
    const auto size = listed ? static_cast<std::int64_t>(group.members.size()) : program.mesh[axis];
    if (size > 1) return false;
  }
  return true;
}

bool does_nothing(const Program& program, const ProgramOp& op, std::int64_t rank) {
  return has_no_peers(program, op) || passes_by(program, op, rank);
}

}  // namespace trainyard
