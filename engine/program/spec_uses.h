// Whether the specs of an op's tensors are what one strategy makes of it (sharding/strategy.h):
// along each axis of the mesh one use, and dims that share an index cut alike.
//
// Looked at axis by axis, on local shapes; apply() is not asked, so that a mistake there is seen.
// More is let pass than equality with apply():
//   - E and R are one where no gradient flows: ids, masks, statistics, and gradients themselves;
//   - a stored parameter is R where it is used entered: the gradient that is added to it is P then.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/sharding/index_space.h"

namespace trainyard {

/// One operand or result: its specs where the instruction has them, and its local extents.
struct UsedTensor {
  std::string name;
  const TensorSpec* value = nullptr;
  const TensorSpec* gradient = nullptr;
  Extents local;
  bool differentiable = true;
  bool stored = false;
};

struct UsedTensors {
  std::vector<UsedTensor> operands;  // as many as the space has
  std::vector<UsedTensor> results;
};

/// The tensor at fault and why; nullopt: nothing is. `space`: of the local extents.
std::optional<std::string> find_use_problem(const IndexSpace& space, const UsedTensors& tensors,
                                            const DeviceMesh& mesh);

}  // namespace trainyard
