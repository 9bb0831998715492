#include "engine/program/replica_samples.h"

#include <algorithm>

#include "engine/sharding/replica_axes.h"

namespace trainyard {

SequenceRange samples_of_rank(const Program& program, ValueId rows, const Coordinate& at,
                              Microbatch mb) {
  const DeviceMesh& mesh = program.mesh;
  const DocumentDraws& draws = *program.documents;
  const TensorSpec spec = spec_of(program, program.values[rows]);
  const Axes& axes = spec.dims.front().parts.front().axes;
  const std::int64_t size = draws.size_of(mb);
  // Ranks of a replica have some of its samples each, or all of them all.
  const std::int64_t place = place_in_group(mesh, axes, at);
  const AxisId unlike = unlike_axis(mesh);
  if (unlike == kNoAxis || !has(set_of(axes), unlike)) {
    const std::int64_t parts = std::max<std::int64_t>(1, group_size(mesh, axes) / draws.replicas);
    const std::int64_t each = size / parts;
    const std::int64_t first = draws.first_sample(mb, place / parts) + place % parts * each;
    return {first, first + each};
  }
  const std::int32_t replicas = num_replicas(mesh, at[stage_axis(mesh)]);
  const std::int64_t parts = group_size(mesh, axes, at[stage_axis(mesh)]) / replicas;
  const SequenceRange within = sequences_of_replica(size, replicas, place / parts);
  const std::int64_t each = within.size() / parts;
  const std::int64_t first = draws.first_sample(mb, 0) + within.begin + place % parts * each;
  return {first, first + each};
}

}  // namespace trainyard
