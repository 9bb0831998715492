#include "app/resolve_by_cost.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "app/analytic_step.h"
#include "app/choose_partition.h"
#include "app/choose_rotor.h"
#include "app/choose_share.h"
#include "app/choose_splits.h"
#include "engine/planner/search_schedule.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

std::optional<EvaluatedStep> evaluate_schedule(const Prepared& prepared, Study study,
                                               const ScheduleConfig& schedule, bool with_times) {
  study.schedule = schedule;
  PassLog log;
  const auto program = program_of(prepared, study, log);
  if (!program) return std::nullopt;
  const Trace trace = step_of(prepared, study, *program, with_times);
  EvaluatedStep step{trace.period, ActionTimes(study.num_stages())};
  if (with_times) {
    for (const RankTrace& rank : trace.ranks) step.times.add(*program, rank.rows);
  }
  return step;
}

/// `study`: prepared.study, or it with other cuts. nullopt: nothing is left open.
std::optional<ShareChoice> choose_recompute(const Prepared& prepared, Study& study,
                                            Bytes capacity) {
  if (study.recompute.method != RecomputeConfig::Method::kStageAware || study.recompute.first)
    return std::nullopt;
  return choose_share(prepared, study, capacity);
}

/// Throws ConfigError in place of the Infeasible.
std::string rows_or_fail(const Study& study, std::variant<std::string, Infeasible> rows) {
  if (const auto* reason = std::get_if<Infeasible>(&rows))
    fail_at(study, reason->key, reason->reason);
  return std::get<std::string>(std::move(rows));
}

void choose_schedule(const Prepared& prepared, Study& study) {
  if (!is_searched_schedule(study.schedule.method) || !study.schedule.rows.empty()) return;
  study.schedule.rows = rows_or_fail(
      study, search_schedule(study, [&](const ScheduleConfig& schedule, bool with_times) {
        return evaluate_schedule(prepared, study, schedule, with_times);
      }));
  study.origins["schedule.rows"] =
      derived_origin("searched for the durations of these stages on these devices");
}

}  // namespace

std::optional<EvaluatedCuts> evaluate_cuts(const Prepared& prepared,
                                           const std::vector<StageCut>& cuts, Bytes limit) {
  Study study = prepared.study;
  study.partition.method = "cuts";
  study.partition.cuts = cuts;
  EvaluatedCuts out;
  out.share = choose_recompute(prepared, study, limit);
  choose_schedule(prepared, study);
  PassLog log;
  const auto program = program_of(prepared, study, log);
  if (!program) return std::nullopt;
  out.period = step_of(prepared, study, *program, false).period;
  for (const MemoryPeak& peak : peaks_of(prepared, study, *program))
    out.excess = std::max(out.excess, peak.total - limit);
  return out;
}

std::string rows_of_durations(const Study& study, const ScheduleSettings& durations) {
  return rows_or_fail(study, searched_rows(study, durations));
}

void resolve_by_cost(Prepared& prepared) {
  choose_splits(prepared);
  choose_partition(prepared, [&](const std::vector<StageCut>& cuts) {
    return evaluate_cuts(prepared, cuts, capacity_of(prepared));
  });
  choose_recompute(prepared, prepared.study, capacity_of(prepared));
  choose_sequences(prepared);
  choose_schedule(prepared, prepared.study);
}

}  // namespace trainyard
