#include "engine/program/no_ops.h"

#include <iterator>

#include "engine/program/owners.h"
#include "engine/program/rank_places.h"

namespace trainyard {

bool has_no_peers(const Program& program, const ProgramOp& op, std::int32_t pipeline_rank) {
  if (!is_collective(op.kind)) return false;
  const Group& group = program.groups[op.group];
  for (const AxisId axis : group.axes) {
    const bool listed = program.mesh.axes[axis].stages && !group.members.empty();
    const std::int64_t size =
        listed ? std::ssize(group.members) : program.mesh.size(axis, pipeline_rank);
    if (size > 1) return false;
  }
  return true;
}

bool does_nothing(const Program& program, const ProgramOp& op, std::int64_t rank) {
  return has_no_peers(program, op, pipeline_rank(program, rank)) || passes_by(program, op, rank);
}

}  // namespace trainyard
