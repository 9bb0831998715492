// The slices of a Program's mesh (sharding/mesh_slice.h), and in which of them its segments run and
// its values lie.
#pragma once

#include "engine/program/program.h"

namespace trainyard {

struct MeshSlices {
  Numbered<DeviceMesh> of_rank;  // [pipeline rank]; one where all have the same mesh
  Indexed<SegmentId, std::int32_t> rank_of_segment;
  Indexed<ValueId, std::int32_t> rank_of_value;  // the first: what several touch is alike on them
};
MeshSlices mesh_slices(const Program& program);

}  // namespace trainyard
