#include "engine/schedule/schedule_timing.h"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/schedule/by_action.h"

namespace trainyard {

namespace {

/// What is kept for all stages, phases and microbatches.
template <typename T>
using ByPhase = ByAction<ActionPhase, kNumActionPhases, T>;
using SeenActions = ByPhase<bool>;

/// Times at which actions end, by what they are; -1: not yet.
class EndTimes {
 public:
  explicit EndTimes(const PipelineSchedule& schedule)
      : ends_(schedule.num_stages, schedule.num_microbatches, -1.0) {}
  double& of(const Action& action) {
    return ends_.of(action.stage, action.phase, action.microbatch);
  }

 private:
  ByPhase<double> ends_;
};

/// The run of a schedule: how far each rank has come.
class ScheduleProgress {
 public:
  ScheduleProgress(const PipelineSchedule& schedule, const Numbered<ActionDurations>& of_stage,
                   double transfer)
      : schedule_(schedule),
        of_stage_(of_stage),
        transfer_(transfer),
        ends_(schedule) {
    const std::size_t ranks = schedule.actions.size();
    timing_.starts.resize(ranks);
    timing_.idle.assign(ranks, 0);
    timing_.span_idle.assign(ranks, 0);
    free_.assign(ranks, 0);
    next_.assign(ranks, 0);
    neighbours_.resize(ranks);
    for (int stage = 1; stage < schedule.num_stages; ++stage) {
      add_neighbour(schedule.rank_of(stage - 1), schedule.rank_of(stage));
      add_neighbour(schedule.rank_of(stage), schedule.rank_of(stage - 1));
    }
  }

  std::variant<ScheduleTiming, ScheduleFault> run() {
    // A rank runs as far as it can; what it did can only set going the ranks of neighbouring
    // stages.
    const std::size_t ranks = schedule_.actions.size();
    std::vector<bool> listed(ranks, true);
    std::vector<std::size_t> to_run;
    for (std::size_t r = ranks; r-- > 0;) to_run.push_back(r);
    while (!to_run.empty()) {
      const std::size_t r = to_run.back();
      to_run.pop_back();
      listed[r] = false;
      if (!advance(r)) continue;
      for (const std::int64_t neighbour : neighbours_[r]) {
        if (listed[neighbour]) continue;
        listed[neighbour] = true;
        to_run.push_back(neighbour);
      }
    }
    if (auto stuck = who_is_stuck()) return *stuck;
    finish();
    return std::move(timing_);
  }

 private:
  void add_neighbour(std::int64_t rank, std::int64_t other) {
    auto& known = neighbours_[rank];
    if (other != rank && std::find(known.begin(), known.end(), other) == known.end())
      known.push_back(other);
  }

  /// Whether rank `r` came any further.
  bool advance(std::size_t r) {
    const auto& actions = schedule_.actions[r];
    const std::size_t before = next_[r];
    while (next_[r] < actions.size()) {
      const std::size_t count = actions[next_[r]].with_next ? 2 : 1;
      double ready = free_[r];
      if (blocked_by(r, count, ready)) break;
      double end = ready;
      for (std::size_t i = 0; i < count; ++i) {
        const Action& action = actions[next_[r] + i];
        const double time = duration(action, of_stage_[action.stage]);
        timing_.starts[r].push_back(ready);
        timing_.idle[r] -= time;
        end += time;
      }
      for (std::size_t i = 0; i < count; ++i) ends_.of(actions[next_[r] + i]) = end;
      free_[r] = end;
      next_[r] += count;
    }
    return next_[r] != before;
  }

  /// What the next `count` actions of rank `r` wait for, the first that has not ended; `ready`:
  /// when all have.
  std::optional<Action> blocked_by(std::size_t r, std::size_t count, double& ready) {
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto cause = waits_for(schedule_.actions[r][next_[r] + i], ready)) return cause;
    }
    return std::nullopt;
  }

  /// What `action` waits for on other stages and its own.
  std::optional<Action> waits_for(const Action& action, double& ready) {
    const int stage = action.stage;
    const int mb = action.microbatch;
    if (action.phase == ActionPhase::kForward) {
      if (stage == 0) return std::nullopt;
      return need({stage - 1, ActionPhase::kForward, mb}, stage, ready);
    }
    if (action.phase == ActionPhase::kBackwardWeight)
      return need({stage, ActionPhase::kBackwardInput, mb}, stage, ready);
    if (action.phase != ActionPhase::kEarlyRecompute && stage + 1 < schedule_.num_stages) {
      const Action whole{stage + 1, ActionPhase::kBackward, mb};
      const Action half{stage + 1, ActionPhase::kBackwardInput, mb};
      if (need(whole, stage, ready) && need(half, stage, ready)) return whole;
    }
    return need({stage, ActionPhase::kForward, mb}, stage, ready);
  }

  /// `other` where it has not ended; else its output reaches `stage` before `ready`.
  std::optional<Action> need(const Action& other, int stage, double& ready) {
    const double end = ends_.of(other);
    if (end < 0) return other;
    const bool same_rank = schedule_.rank_of(other.stage) == schedule_.rank_of(stage);
    ready = std::max(ready, same_rank ? end : end + transfer_);
    return std::nullopt;
  }

  /// All that are stuck, and where the first is.
  std::optional<ScheduleFault> who_is_stuck() {
    std::optional<ScheduleFault> fault;
    for (const std::int64_t r : next_.keys()) {
      if (next_[r] == schedule_.actions[r].size()) continue;
      const Action& action = schedule_.actions[r][next_[r]];
      double ready = 0;
      const auto cause = blocked_by(r, action.with_next ? 2 : 1, ready);
      if (!fault) fault = ScheduleFault{"", r, next_[r]};
      if (!fault->reason.empty()) fault->reason += "; ";
      fault->reason += "rank " + std::to_string(r) + " step " + std::to_string(next_[r]) + ": " +
                       to_string(action) + " waits for " + (cause ? to_string(*cause) : "its rank");
    }
    return fault;
  }

  void finish() {
    timing_.makespan = free_.empty() ? 0 : *std::max_element(free_.begin(), free_.end());
    for (std::size_t r = 0; r < free_.size(); ++r) {
      const double first = timing_.starts[r].empty() ? 0 : timing_.starts[r].front();
      timing_.span_idle[r] =
          std::max(0.0, timing_.idle[r] + free_[r] - first);  // rounding may take it below
      timing_.idle[r] += timing_.makespan;
    }
  }

  const PipelineSchedule& schedule_;
  const Numbered<ActionDurations>& of_stage_;
  double transfer_;
  EndTimes ends_;
  ScheduleTiming timing_;
  Numbered<double> free_;                           // [rank]: end of its last action
  Numbered<std::size_t> next_;                      // [rank]: position
  Numbered<std::vector<std::int64_t>> neighbours_;  // [rank]: those of stages beside its own
};

/// What is wrong with the action at `i` of `rank`, of which `seen` has all that are before it.
std::string misplaced(const PipelineSchedule& schedule, int rank, std::size_t i,
                      const SeenActions& seen) {
  const auto& actions = schedule.actions[rank];
  const Action& action = actions[i];
  const auto is_seen = [&](ActionPhase phase) {
    return seen.of(action.stage, phase, action.microbatch);
  };
  if (action.stage < 0 || action.stage >= schedule.num_stages || action.microbatch < 0 ||
      action.microbatch >= schedule.num_microbatches) {
    return "rank " + std::to_string(rank) + ": " + to_string(action) + " is out of range";
  }
  if (const int place = schedule.rank_of(action.stage); place != rank) {
    return to_string(action) + " is on rank " + std::to_string(rank) + ", its stage on rank " +
           std::to_string(place);
  }
  if (is_seen(action.phase)) return to_string(action) + " appears twice";
  const bool pair = action.with_next && action.phase == ActionPhase::kForward &&
                    i + 1 < actions.size() && actions[i + 1].phase == ActionPhase::kBackward &&
                    !actions[i + 1].with_next;
  if (action.with_next && !pair)
    return to_string(action) + " has no backward behind it to run with";
  if (pair && actions[i + 1].microbatch == action.microbatch) {
    return to_string(actions[i + 1]) + " cannot run together with " + to_string(action) +
           ": every backward needs all forwards of its microbatch";
  }
  const bool again =
      action.phase == ActionPhase::kRecompute || action.phase == ActionPhase::kEarlyRecompute;
  if (again && (is_seen(ActionPhase::kBackward) || is_seen(ActionPhase::kBackwardInput)))
    return to_string(action) + " comes after the backward that needs it";
  return "";
}

/// What of a microbatch on a stage is missing or there too often: F, and B or both of its halves.
std::string missing(int stage, int mb, const SeenActions& seen) {
  const auto is_seen = [&](ActionPhase phase) { return seen.of(stage, phase, mb); };
  const auto text = [&](ActionPhase phase) { return to_string(Action{stage, phase, mb}); };
  if (!is_seen(ActionPhase::kForward)) return text(ActionPhase::kForward) + " is missing";
  const bool input = is_seen(ActionPhase::kBackwardInput);
  const bool weight = is_seen(ActionPhase::kBackwardWeight);
  const bool whole = is_seen(ActionPhase::kBackward);
  if ((input || weight) && whole)
    return text(ActionPhase::kBackward) + " is there in whole and in halves";
  if (!input && !weight && !whole) return text(ActionPhase::kBackward) + " is missing";
  if (!whole && !input) return text(ActionPhase::kBackwardInput) + " is missing";
  if (!whole && !weight) return text(ActionPhase::kBackwardWeight) + " is missing";
  return "";
}

/// A fault that shows without running it.
std::optional<ScheduleFault> malformed(const PipelineSchedule& schedule) {
  SeenActions seen(schedule.num_stages, schedule.num_microbatches, false);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto& actions = schedule.actions[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      std::string problem = misplaced(schedule, rank, i, seen);
      if (!problem.empty()) return ScheduleFault{std::move(problem), rank, i};
      seen.of(actions[i].stage, actions[i].phase, actions[i].microbatch) = true;
    }
  }
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    for (int mb = 0; mb < schedule.num_microbatches; ++mb) {
      std::string problem = missing(stage, mb, seen);
      if (problem.empty()) continue;
      const int rank = schedule.rank_of(stage);
      return ScheduleFault{std::move(problem), rank, schedule.actions[rank].size()};
    }
  }
  return std::nullopt;
}

/// Its times, or why it has none.
std::variant<ScheduleTiming, ScheduleFault> run(const PipelineSchedule& schedule,
                                                const Numbered<ActionDurations>& of_stage,
                                                double transfer) {
  if (auto fault = malformed(schedule)) return std::move(*fault);
  return ScheduleProgress(schedule, of_stage, transfer).run();
}

}  // namespace

double duration(const Action& action, const ActionDurations& durations) {
  switch (action.phase) {
    case ActionPhase::kForward: return durations.forward;
    case ActionPhase::kBackward: return durations.backward;
    case ActionPhase::kBackwardInput: return durations.input;
    case ActionPhase::kBackwardWeight: return durations.weight;
    case ActionPhase::kRecompute:
    case ActionPhase::kEarlyRecompute: return durations.recompute;
  }
  return 0;
}

std::variant<ScheduleTiming, Infeasible> time_schedule(const PipelineSchedule& schedule,
                                                       const Numbered<ActionDurations>& of_stage,
                                                       double transfer) {
  check(std::ssize(of_stage) == schedule.num_stages, "durations of every stage");
  auto timed = run(schedule, of_stage, transfer);
  if (auto* fault = std::get_if<ScheduleFault>(&timed))
    return Infeasible{std::move(fault->reason), "schedule"};
  return std::move(std::get<ScheduleTiming>(timed));
}

std::optional<ScheduleFault> find_fault(const PipelineSchedule& schedule) {
  const Numbered<ActionDurations> of_stage(schedule.num_stages);
  auto timed = run(schedule, of_stage, 0);
  auto* fault = std::get_if<ScheduleFault>(&timed);
  return fault == nullptr ? std::nullopt : std::optional(std::move(*fault));
}

std::variant<ScheduleTiming, Infeasible> time_schedule(const PipelineSchedule& schedule,
                                                       const ActionDurations& durations) {
  const Numbered<ActionDurations> of_stage(schedule.num_stages, durations);
  return time_schedule(schedule, of_stage, 0);
}

namespace {

/// By how many an action changes the microbatches in flight.
int change_in_flight(ActionPhase phase) {
  if (phase == ActionPhase::kForward) return 1;
  return phase == ActionPhase::kBackward || phase == ActionPhase::kBackwardWeight ? -1 : 0;
}

}  // namespace

int peak_in_flight(const PipelineSchedule& schedule, int pipeline_rank) {
  int now = 0;
  int peak = 0;
  for (const Action& action : schedule.actions[pipeline_rank]) {
    now += change_in_flight(action.phase);
    peak = std::max(peak, now);
  }
  return peak;
}

Numbered<int> stages_in_flight(const PipelineSchedule& schedule) {
  Numbered<int> peak(schedule.num_stages, 1), now(schedule.num_stages, 0);
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      now[action.stage] += change_in_flight(action.phase);
      peak[action.stage] = std::max(peak[action.stage], now[action.stage]);
    }
  }
  return peak;
}

}  // namespace trainyard
