#include "engine/program/replica_samples.h"

#include "engine/sharding/device_mesh.h"

namespace trainyard {

SequenceRange samples_of_rank(const Program& program, ValueId rows, const Coordinate& at,
                              Microbatch mb) {
  const DeviceMesh& mesh = program.mesh;
  const DocumentDraws& draws = *program.documents;
  const TensorSpec spec = spec_of(program, program.values[rows]);
  const std::int64_t replica = place_in_group(mesh, spec.dims.front().parts.front().axes, at);
  const std::int64_t size = draws.size_of(mb);
  const AxisId unlike = unlike_axis(mesh);
  if (unlike == kNoAxis) {
    const std::int64_t first = draws.first_sample(mb, replica);
    return {first, first + size};
  }
  const std::int32_t replicas = mesh.size(unlike, at[stage_axis(mesh)]);
  const SequenceRange within = sequences_of_replica(size, replicas, replica);
  const std::int64_t first = draws.first_sample(mb, 0);
  return {first + within.begin, first + within.end};
}

}  // namespace trainyard
