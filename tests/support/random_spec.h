// Random meshes, tensors and specs: uneven extents, packed and reversed parts, every state.
#pragma once

#include <random>

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

using Random = std::mt19937_64;

inline int draw(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

/// A mesh of axes "a", "b", ... with these sizes.
DeviceMesh mesh_of(const std::vector<std::int32_t>& sizes);

/// 1 to `most_axes` axes of 2 or 3 ranks (sometimes 1, 4), `most_ranks` at most.
DeviceMesh random_mesh(Random& random, int most_axes, int most_ranks);

Extents random_extents(Random& random, int most_dims, int most_extent);

struct SpecChoice {
  bool packed = true;   // parts, reversed ones, and `after`
  bool held = true;     // H@k
  bool partial = true;  // P and E; else R alone beside S
};

/// A spec without spec_problem(), in normal form.
TensorSpec random_spec(Random& random, const Extents& extents, const DeviceMesh& mesh,
                       const SpecChoice& choice = {});

}  // namespace trainyard
