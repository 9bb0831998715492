#include "engine/sharding/mesh_slice.h"

namespace trainyard {

DeviceMesh mesh_slice(const DeviceMesh& mesh, std::int32_t pipeline_rank) {
  DeviceMesh slice = mesh;
  for (const AxisId axis : mesh.axis_ids()) {
    slice.axes[axis].size = mesh.size(axis, pipeline_rank);
    slice.axes[axis].sizes.clear();
  }
  return slice;
}

DeviceMesh mesh_slice(const DeviceMesh& mesh, const Coordinate& at) {
  const AxisId stages = stage_axis(mesh);
  return mesh_slice(mesh, stages == kNoAxis ? 0 : at[stages]);
}

}  // namespace trainyard
