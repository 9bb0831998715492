// Which actions of a pipeline have been done, and what an action waits for.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/schedule/by_action.h"
#include "engine/schedule/lowered_action.h"
#include "engine/schedule/lowering_passes.h"

namespace trainyard {

class ActionLog {
 public:
  /// `direct`: producers are seen on every rank, not through receives.
  ActionLog(const StagePlacement& placement, int num_microbatches, bool direct = false)
      : placement_(placement),
        direct_(direct),
        done_(placement.num_stages(), num_microbatches, false) {}

  void add(const LoweredAction& action) {
    if (has_microbatch(action.kind)) done_.of(action.stage, action.kind, action.microbatch) = true;
  }
  bool has(LoweredKind kind, int stage, int microbatch) const {
    return done_.of(stage, kind, microbatch);
  }
  bool has_gradient(int stage, int microbatch) const {  // of the stage's input
    return has(LoweredKind::kBackward, stage, microbatch) ||
           has(LoweredKind::kBackwardInput, stage, microbatch);
  }

  /// The action that `action` waits for; nullopt: it may run. Weight gradients, early recompute and
  /// what is of no microbatch may always run.
  std::optional<LoweredAction> waits_for(const LoweredAction& action) const;

 private:
  bool seen(int producer, int stage) const {
    return direct_ || placement_.together(producer, stage);
  }

  const StagePlacement& placement_;
  bool direct_;
  ByAction<LoweredKind, static_cast<int>(LoweredKind::kIdle), bool> done_;
};

/// "rank 0 step 3: 0B0 waits for 0RECV_B0; rank 1 ...", of every rank that has not come to its end.
std::string stuck_ranks(const std::vector<LoweredRow>& rows, const std::vector<std::size_t>& next,
                        const ActionLog& log);

}  // namespace trainyard
