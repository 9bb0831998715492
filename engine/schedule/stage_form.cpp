#include "engine/schedule/stage_form.h"

#include <algorithm>

namespace trainyard {

namespace {

/// Notes what one rank's list says of its stages.
void read_list(const std::vector<Action>& actions, int num_microbatches,
               std::vector<StageForm>& forms, std::vector<bool>& has_recompute) {
  // Microbatches that the rank has recomputed early and not yet run backward: [stage][microbatch].
  const auto place = [&](const Action& action) {
    return static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(num_microbatches) +
           static_cast<std::size_t>(action.microbatch);
  };
  std::vector<std::size_t> early;  // ascending in time, few at once
  const Action* before = nullptr;
  for (const Action& action : actions) {
    StageForm& form = forms[static_cast<std::size_t>(action.stage)];
    switch (action.phase) {
      case ActionPhase::kForward:
      case ActionPhase::kBackwardWeight: break;
      case ActionPhase::kEarlyRecompute: early.push_back(place(action)); [[fallthrough]];
      case ActionPhase::kRecompute:
        has_recompute[static_cast<std::size_t>(action.stage)] = true;
        break;
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

std::vector<StageForm> stage_forms(const PipelineSchedule& schedule) {
  std::vector<StageForm> forms(static_cast<std::size_t>(schedule.num_stages));
  std::vector<bool> has_recompute(forms.size(), false);
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    forms[static_cast<std::size_t>(stage)].rank = schedule.rank_of(stage);
    forms[static_cast<std::size_t>(stage)].at_once = true;
  }
  for (const auto& actions : schedule.actions) {
    read_list(actions, schedule.num_microbatches, forms, has_recompute);
  }
  if (std::find(has_recompute.begin(), has_recompute.end(), true) != has_recompute.end()) {
    for (std::size_t stage = 0; stage < forms.size(); ++stage)
      forms[stage].recomputes = has_recompute[stage];
  }
  return forms;
}

std::vector<bool> recomputing_stages(const std::vector<StageForm>& forms) {
  std::vector<bool> out;
  out.reserve(forms.size());
  for (const StageForm& form : forms) out.push_back(form.recomputes);
  return out;
}

std::vector<bool> stages_at_once(const std::vector<StageForm>& forms) {
  std::vector<bool> out;
  out.reserve(forms.size());
  for (const StageForm& form : forms) out.push_back(form.at_once);
  return out;
}

bool any_splits(const std::vector<StageForm>& forms) {
  return std::any_of(forms.begin(), forms.end(),
                     [](const StageForm& form) { return form.splits(); });
}

std::int32_t turning_stage(const std::vector<StageForm>& forms) {
  for (std::size_t stage = 1; stage < forms.size(); ++stage) {
    if (forms[stage].rank == forms[stage - 1].rank) return static_cast<std::int32_t>(stage);
  }
  return -1;
}

}  // namespace trainyard
