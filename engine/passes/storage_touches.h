// Where the stages of a rank touch each storage of a microbatch: what decides how long it lives.
#pragma once

#include <vector>

#include "engine/passes/program_draft.h"

namespace trainyard {

/// Touches of a storage: by the turning stage (stage_form.h) and by any other.
struct Touches {
  TouchSet by_turning = 0, by_other = 0;
  bool handed_over() const { return by_turning != 0 && by_other != 0; }
  TouchSet all() const { return by_turning | by_other; }
};

/// Those of storage roots; the others have none.
Indexed<TensorId, Touches> find_touches(const TrainingGraph& training,
                                        const Numbered<StageForm>& forms);

}  // namespace trainyard
