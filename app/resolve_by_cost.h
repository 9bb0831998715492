// What a checked study leaves to the memory and the times of its own Program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "engine/planner/search_cuts.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

/// Chooses how ops are split where the study leaves that to cost (choose_splits.h), partition.cuts
/// where the study leaves them to costs (choose_partition.h), recompute.first where the study
/// leaves it to memory, by peaks as `compile` counts them (memory/memory.h), and schedule.rows
/// where its schedule is searched and has none, by steps with closed forms (analytic, whatever the
/// study's fidelity, so that all take the same order). The study says so in its origins.
/// prepare_study() does this at its end. Throws ConfigError where a search is given numbers that it
/// cannot serve.
void resolve_by_cost(Prepared& prepared);

/// The step that prepared.study would have with these cuts, all that it leaves to cost chosen for
/// them within `limit`, and what its fullest rank takes above that; nullopt: it has no Program.
std::optional<EvaluatedCuts> evaluate_cuts(const Prepared& prepared,
                                           const std::vector<StageCut>& cuts, Bytes limit);

/// searched_rows() of planner/search_schedule.h for the study's plan. Throws ConfigError at
/// `schedule`.
std::string rows_of_durations(const Study& study, const ScheduleSettings& durations);

}  // namespace trainyard
