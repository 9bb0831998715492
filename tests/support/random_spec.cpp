#include "tests/support/random_spec.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

/// A dim of two or three parts, each cut by some of `axes`, perhaps cut again behind them.
DimSplit random_parts(Random& random, std::int64_t extent, const Axes& axes) {
  DimSplit dim;
  dim.parts.clear();
  Axes in_parts = axes;
  if (draw(random, 0, 3) == 0) {
    dim.after = {in_parts.back()};
    in_parts.pop_back();
  }
  std::int64_t left = extent;
  for (int wanted = draw(random, 1, 3); wanted > 0 && left > 0; --wanted) {
    DimPart part;
    const std::int64_t size = wanted == 1 ? left : draw(random, 1, static_cast<int>(left));
    part.unit = draw(random, 0, 1) == 0 ? 1 : draw(random, 1, static_cast<int>(size));
    while (size % part.unit != 0) --part.unit;
    part.count = size / part.unit;
    part.reversed = draw(random, 0, 3) == 0;
    for (const AxisId axis : in_parts) {
      if (!dim.after.empty() || draw(random, 0, 3) != 0) part.axes.push_back(axis);
    }
    left -= size;
    dim.parts.push_back(part);
  }
  if (left > 0) dim.parts.back().count += left / dim.parts.back().unit;
  return dim;
}

}  // namespace

DeviceMesh mesh_of(const std::vector<std::int32_t>& sizes) {
  DeviceMesh mesh;
  for (const std::int32_t size : sizes)
    mesh.axes.push_back({std::string(1, static_cast<char>('a' + mesh.num_axes())), size, false});
  return mesh;
}

DeviceMesh random_mesh(Random& random, int most_axes, int most_ranks) {
  std::vector<std::int32_t> sizes;
  int ranks = 1;
  for (int axes = draw(random, 1, most_axes); axes > 0; --axes) {
    const int kSizes[] = {2, 2, 2, 3, 3, 4, 1};
    int size = kSizes[draw(random, 0, 6)];
    if (ranks * size > most_ranks) size = std::min(2, most_ranks / ranks);
    if (size < 1 || (size == 1 && sizes.empty())) size = 2;
    ranks *= size;
    sizes.push_back(size);
  }
  return mesh_of(sizes);
}

Extents random_extents(Random& random, int most_dims, int most_extent) {
  Extents extents;
  for (int dims = draw(random, 1, most_dims); dims > 0; --dims)
    extents.push_back(draw(random, 1, most_extent));
  return extents;
}

TensorSpec random_spec(Random& random, const Extents& extents, const DeviceMesh& mesh,
                       const SpecChoice& choice) {
  TensorSpec spec = replicated_spec(extents.size());
  std::vector<Axes> lists(extents.size());
  std::vector<AxisId> order;
  for (const AxisId axis : mesh.axis_ids()) order.push_back(axis);
  std::shuffle(order.begin(), order.end(), random);
  for (const AxisId axis : order) {
    if (!extents.empty() && draw(random, 0, 1) == 0)
      lists[static_cast<std::size_t>(draw(random, 0, static_cast<int>(extents.size()) - 1))]
          .push_back(axis);
  }
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const bool parts = choice.packed && !lists[d].empty() && draw(random, 0, 2) == 0;
    spec.dims[d] = parts ? random_parts(random, extents[d], lists[d]) : split_over(lists[d]);
  }
  for (const AxisId axis : order) {
    if (splits_everything(spec, axis)) continue;
    const int state = draw(random, 0, choice.held ? 3 : 2);
    if (state == 1 && choice.partial) set_state(spec, axis, AxisState::kPartial);
    if (state == 2 && choice.partial) set_state(spec, axis, AxisState::kEntered);
    if (state == 3) set_state(spec, axis, AxisState::kHeld, draw(random, 0, mesh.size(axis) - 1));
  }
  if (const auto problem = spec_problem(spec, extents, mesh)) bug(*problem);
  return normal_form(spec, extents, mesh);
}

}  // namespace trainyard
