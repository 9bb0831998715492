// Ops that move data, on tensors: copies, and what a communicator is given where parts of a tensor
// do not lie one behind the other.
#pragma once

#include <cstdint>
#include <vector>

#include "real/exec/rank_plan.h"

namespace trainyard {

/// Runs the op, on the stream of its communicator. `parts`: how many times what is written is as
/// large as what is read, or the other way round.
void move_tensors(const OpPlan& plan, const std::vector<at::Tensor>& reads,
                  std::vector<at::Tensor>& writes, std::int64_t parts);

}  // namespace trainyard
