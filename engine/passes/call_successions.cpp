#include "engine/passes/call_successions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/passes/planned_calls.h"

namespace trainyard {

namespace {

bool recomputes(const Action& action) { return action.phase == ActionPhase::kEarlyRecompute; }

/// Halves of a backward are where a stage has only weights, or only inputs, with a gradient.
bool may_be_nothing(const Action& action) {
  return recomputes(action) || action.phase == ActionPhase::kBackwardInput ||
         action.phase == ActionPhase::kBackwardWeight;
}

}  // namespace

std::vector<CallSuccession> call_successions(const PipelineSchedule& schedule,
                                             const Numbered<std::size_t>& size_of) {
  std::set<CallSuccession> found;
  const PipelineSchedule of_calls = without_late_recompute(schedule);
  for (const auto& actions : of_calls.actions) {
    std::set<std::pair<std::int32_t, Microbatch>> with_recompute;
    for (const Action& action : actions) {
      if (recomputes(action)) with_recompute.emplace(action.stage, action.microbatch);
    }
    const auto kind = [&](const Action& action) {
      return CallKind{action.stage, action.phase,
                      with_recompute.contains({action.stage, action.microbatch}),
                      size_of.empty() ? 0 : size_of[action.microbatch]};
    };
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const CallKind next = kind(actions[i]);
      std::vector<CallKind> without;
      std::size_t before = i;
      for (bool more = true; more && before > 0; more = may_be_nothing(actions[before])) {
        --before;
        found.insert({kind(actions[before]), next,
                      actions[before].microbatch == actions[i].microbatch, without});
        if (may_be_nothing(actions[before])) without.push_back(kind(actions[before]));
      }
      if (before == 0 && (i == 0 || may_be_nothing(actions[0])))
        found.insert({std::nullopt, next, false, without});
    }
  }
  return {found.begin(), found.end()};
}

SegmentId segment_of(const ProgramDraft& draft, const CallKind& kind) {
  const StageSegments& stage = draft.stages[kind.size][kind.stage];
  const std::size_t behind = kind.behind_recompute ? 1 : 0;
  switch (kind.phase) {
    case ActionPhase::kForward: return stage.forward;
    case ActionPhase::kBackward: return stage.backward[behind];
    case ActionPhase::kBackwardInput: return stage.input[behind];
    case ActionPhase::kBackwardWeight: return stage.weight;
    case ActionPhase::kRecompute:
    case ActionPhase::kEarlyRecompute: return stage.recompute;
  }
  return kNoIndex;
}

std::set<CallSuccession> successions_of_classes(const ProgramDraft& draft,
                                                const std::vector<CallSuccession>& successions) {
  std::set<CallSuccession> out;
  for (const DraftClass& of : draft.classes) {
    const auto of_class = [&](CallKind kind) {
      kind.size = of.variants[kind.size];
      return kind;
    };
    for (CallSuccession one : successions) {
      if (draft.forms[one.next.stage].rank != of.rank) continue;
      if (one.call) one.call = of_class(*one.call);
      one.next = of_class(one.next);
      for (CallKind& kind : one.without) kind = of_class(kind);
      out.insert(std::move(one));
    }
  }
  return out;
}

}  // namespace trainyard
