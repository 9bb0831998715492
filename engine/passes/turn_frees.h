// Frees of what several stages of a pipeline rank touch: no segment's end is the last use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/passes/storage_touches.h"

namespace trainyard {

struct TurnFree {
  std::int32_t stage = 0;  // the last that touches them
  std::string name;        // a, b, ..., z, aa, ...: of those of a stage
  ProgramOp op;
  StageTouches touches;
};

/// One for storages that are touched alike. `value_of`: [tensor], kNoIndex where it has none.
std::vector<TurnFree> turn_frees(const Indexed<TensorId, Touches>& touched,
                                 const Indexed<TensorId, ValueId>& value_of, ValueId loss);

}  // namespace trainyard
