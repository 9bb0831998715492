#include "engine/schedule/action_log.h"

#include <string>

namespace trainyard {

std::optional<LoweredAction> ActionLog::waits_for(const LoweredAction& action) const {
  const int stage = action.stage;
  const int mb = action.microbatch;
  const auto unless = [](bool done, const LoweredAction& cause) {
    return done ? std::nullopt : std::optional(cause);
  };
  switch (action.kind) {
    case LoweredKind::kForward: {
      if (stage == 0) return std::nullopt;
      const LoweredAction receive{stage, LoweredKind::kRecvForward, mb};
      const LoweredAction producer{stage - 1, LoweredKind::kForward, mb};
      if (!seen(stage - 1, stage)) return unless(has(receive.kind, stage, mb), receive);
      return unless(has(producer.kind, stage - 1, mb) || has(receive.kind, stage, mb), producer);
    }
    case LoweredKind::kBackward:
    case LoweredKind::kBackwardInput:
    case LoweredKind::kRecompute: {
      if (stage + 1 == placement_.num_stages()) return std::nullopt;
      const LoweredAction receive{stage, LoweredKind::kRecvBackward, mb};
      const LoweredAction producer{stage + 1, LoweredKind::kBackward, mb};
      if (!seen(stage + 1, stage)) return unless(has(receive.kind, stage, mb), receive);
      return unless(has_gradient(stage + 1, mb) || has(receive.kind, stage, mb), producer);
    }
    case LoweredKind::kSendForward:
      return unless(has(LoweredKind::kForward, stage, mb), {stage, LoweredKind::kForward, mb});
    case LoweredKind::kSendBackward:
      return unless(has_gradient(stage, mb), {stage, LoweredKind::kBackward, mb});
    case LoweredKind::kRecvForward: {
      const LoweredAction send{stage - 1, LoweredKind::kSendForward, mb};
      return unless(stage > 0 && has(send.kind, send.stage, mb), send);
    }
    case LoweredKind::kRecvBackward: {
      const LoweredAction send{stage + 1, LoweredKind::kSendBackward, mb};
      return unless(send.stage < placement_.num_stages() && has(send.kind, send.stage, mb), send);
    }
    default: return std::nullopt;
  }
}

std::string stuck_ranks(const std::vector<LoweredRow>& rows, const std::vector<std::size_t>& next,
                        const ActionLog& log) {
  std::string stuck;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (next[rank] >= rows[rank].size()) continue;
    for (std::size_t i = 0; i < word_length(rows[rank], next[rank]); ++i) {
      const LoweredAction& action = rows[rank][next[rank] + i];
      const auto cause = log.waits_for(action);
      if (!cause) continue;
      stuck += (stuck.empty() ? "rank " : "; rank ") + std::to_string(rank) + " step " +
               std::to_string(next[rank]) + ": " + to_string(action) + " waits for " +
               to_string(*cause);
      break;
    }
  }
  return stuck;
}

}  // namespace trainyard
