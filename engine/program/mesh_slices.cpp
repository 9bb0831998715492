#include "engine/program/mesh_slices.h"

#include "engine/program/rank_places.h"
#include "engine/sharding/mesh_slice.h"

namespace trainyard {

MeshSlices mesh_slices(const Program& program) {
  MeshSlices out;
  out.rank_of_segment = pipeline_ranks_of_segments(program);
  out.rank_of_value = Indexed<ValueId, std::int32_t>(program.values.size(), 0);
  out.of_rank.push_back(mesh_slice(program.mesh, 0));
  if (unlike_axis(program.mesh) == kNoAxis) return out;
  for (std::int32_t p = 1; p < num_pipeline_ranks(program.mesh); ++p)
    out.of_rank.push_back(mesh_slice(program.mesh, p));
  Indexed<ValueId, bool> known(program.values.size(), false);
  for (const SegmentId id : program.segments.keys()) {
    for (const ProgramOp& op : program.segments[id].ops) {
      for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
        for (const Operand& operand : *operands) {
          const ValueId storage = storage_root(program, operand.value);
          if (!known[storage]) out.rank_of_value[storage] = out.rank_of_segment[id];
          known[storage] = true;
        }
      }
    }
  }
  // Buckets have views that no op touches.
  for (const ValueId id : program.values.keys())
    out.rank_of_value[id] = out.rank_of_value[storage_root(program, id)];
  return out;
}

}  // namespace trainyard
