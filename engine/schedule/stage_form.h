// What a schedule asks of a stage's Program: the rank it lives on, and in which pieces its backward
// runs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// A backward runs whole (B) or in halves (I, W). What is recomputed for it is recomputed inside
/// it, or before the gradient has come by an R of its own. Each flag: some microbatch of the stage
/// does so.
struct StageForm {
  std::int32_t rank = 0;   // along pp
  bool recomputes = true;  // false: keeps its activations, whatever the study has recomputed
  bool whole = false, whole_behind_recompute = false;
  bool halves = false, halves_behind_recompute = false;
  bool at_once =
      false;  // every backward is the action behind its forward, and nothing is recomputed between

  bool splits() const { return halves || halves_behind_recompute; }
  bool recomputes_early() const { return whole_behind_recompute || halves_behind_recompute; }
  friend bool operator==(const StageForm&, const StageForm&) = default;
};

/// One entry per stage. A schedule that holds no R leaves recomputation to the study: inside the
/// backward on every stage. In one that does, a stage without an R recomputes nothing.
Numbered<StageForm> stage_forms(const PipelineSchedule& schedule);

/// StageForm::recomputes of each stage.
Numbered<bool> recomputing_stages(const Numbered<StageForm>& forms);

/// StageForm::at_once of each stage.
Numbered<bool> stages_at_once(const Numbered<StageForm>& forms);

/// Whether the backward of any stage is split.
bool any_splits(const Numbered<StageForm>& forms);

/// The first stage whose input its own rank has computed, as the stage before it: the turn of a V.
/// -1: every stage has its input from another rank.
std::int32_t turning_stage(const Numbered<StageForm>& forms);

}  // namespace trainyard
