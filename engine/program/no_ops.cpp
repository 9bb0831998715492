#include "engine/program/no_ops.h"

#include <iterator>

#include "engine/program/owners.h"

namespace trainyard {

bool has_no_peers(const Program& program, const ProgramOp& op) {
  if (!is_collective(op.kind)) return false;
  const Group& group = program.groups[op.group];
  for (const AxisId axis : group.axes) {
    const bool listed = program.mesh.axes[axis].stages && !group.members.empty();
    if ((listed ? std::ssize(group.members) : program.mesh.size(axis)) > 1) return false;
  }
  return true;
}

bool does_nothing(const Program& program, const ProgramOp& op, std::int64_t rank) {
  return has_no_peers(program, op) || passes_by(program, op, rank);
}

}  // namespace trainyard
