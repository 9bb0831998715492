#include "engine/schedule/stage_form.h"

#include <algorithm>

namespace trainyard {

namespace {

/// Notes what one rank's list says of its stages.
void read_list(const std::vector<Action>& actions, Numbered<StageForm>& forms,
               Numbered<bool>& has_recompute) {
  // (stage, microbatch) that the rank has recomputed early and not yet run backward.
  const auto place = [](const Action& action) {
    return std::pair(action.stage, action.microbatch);
  };
  std::vector<std::pair<std::int32_t, std::int32_t>> early;  // ascending in time, few at once
  const Action* before = nullptr;
  for (const Action& action : actions) {
    StageForm& form = forms[action.stage];
    switch (action.phase) {
      case ActionPhase::kForward:
      case ActionPhase::kBackwardWeight: break;
      case ActionPhase::kEarlyRecompute: early.push_back(place(action)); [[fallthrough]];
      case ActionPhase::kRecompute: has_recompute[action.stage] = true; break;
      case ActionPhase::kBackward:
      case ActionPhase::kBackwardInput: {
        const auto it = std::find(early.begin(), early.end(), place(action));
        const bool behind = it != early.end();
        if (behind) early.erase(it);
        const bool whole = action.phase == ActionPhase::kBackward;
        const bool follows = before != nullptr && before->phase == ActionPhase::kForward &&
                             before->stage == action.stage &&
                             before->microbatch == action.microbatch;
        form.at_once = form.at_once && follows;
        (whole    ? behind ? form.whole_behind_recompute : form.whole
         : behind ? form.halves_behind_recompute
                  : form.halves) = true;
        break;
      }
    }
    if (action.phase != ActionPhase::kRecompute) before = &action;
  }
}

}  // namespace

Numbered<StageForm> stage_forms(const PipelineSchedule& schedule) {
  Numbered<StageForm> forms(schedule.num_stages);
  Numbered<bool> has_recompute(forms.size(), false);
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    forms[stage].rank = schedule.rank_of(stage);
    forms[stage].at_once = true;
  }
  for (const auto& actions : schedule.actions) {
    read_list(actions, forms, has_recompute);
  }
  if (std::find(has_recompute.begin(), has_recompute.end(), true) != has_recompute.end()) {
    for (const std::int64_t stage : forms.keys()) forms[stage].recomputes = has_recompute[stage];
  }
  return forms;
}

Numbered<bool> recomputing_stages(const Numbered<StageForm>& forms) {
  Numbered<bool> out;
  out.reserve(forms.size());
  for (const StageForm& form : forms) out.push_back(form.recomputes);
  return out;
}

Numbered<bool> stages_at_once(const Numbered<StageForm>& forms) {
  Numbered<bool> out;
  out.reserve(forms.size());
  for (const StageForm& form : forms) out.push_back(form.at_once);
  return out;
}

bool any_splits(const Numbered<StageForm>& forms) {
  return std::any_of(forms.begin(), forms.end(),
                     [](const StageForm& form) { return form.splits(); });
}

std::int32_t turning_stage(const Numbered<StageForm>& forms) {
  for (std::size_t stage = 1; stage < forms.size(); ++stage) {
    if (forms[stage].rank == forms[stage - 1].rank) return static_cast<std::int32_t>(stage);
  }
  return -1;
}

}  // namespace trainyard
