// Where the stages of a rank touch each storage of a microbatch: what decides how long it lives.
#pragma once

#include <vector>

#include "engine/passes/program_draft.h"

namespace trainyard {

/// Touches of a storage by each stage that does, the last stage first.
struct Touches {
  StageTouches by_stage;
  std::int32_t sent_to = -1;  // a stage
  bool sent_apart = false;    // to several stages, each in a transfer of its own
  /// Whether several stages of a rank touch it, or several transfers send it: then the order of
  /// calls says which is the last.
  bool handed_over() const { return by_stage.size() > 1 || sent_apart; }
  TouchSet all() const {
    TouchSet all = 0;
    for (const auto& [stage, touches] : by_stage) all = static_cast<TouchSet>(all | touches);
    return all;
  }
};

/// What may still touch a storage once a segment of this phase has run.
TouchSet touched_behind(Phase phase);

/// Those of storage roots; the others have none.
Indexed<TensorId, Touches> find_touches(const TrainingGraph& training,
                                        const Numbered<StageForm>& forms);

}  // namespace trainyard
