#include "engine/schedule/pipeline_schedule.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace trainyard {

namespace {

constexpr std::string_view kLetters = "FBIW";

std::optional<std::int32_t> parse_number(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + kLetters[static_cast<std::size_t>(action.phase)] +
         std::to_string(action.microbatch);
}

std::optional<Action> parse_action(std::string_view text) {
  const std::size_t at = text.find_first_of(kLetters);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto stage = parse_number(text.substr(0, at));
  const auto microbatch = parse_number(text.substr(at + 1));
  if (!stage || !microbatch || *stage < 0 || *microbatch < 0) return std::nullopt;
  return Action{*stage, static_cast<ActionPhase>(kLetters.find(text[at])), *microbatch};
}

PipelineSchedule gpipe(int num_stages, int num_microbatches) {
  PipelineSchedule schedule{num_stages, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    auto& actions = schedule.actions.emplace_back();
    for (int mb = 0; mb < num_microbatches; ++mb) actions.push_back({stage, ActionPhase::kForward, mb});
    for (int mb = 0; mb < num_microbatches; ++mb) actions.push_back({stage, ActionPhase::kBackward, mb});
  }
  return schedule;
}

PipelineSchedule one_f_one_b(int num_stages, int num_microbatches) {
  PipelineSchedule schedule{num_stages, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    auto& actions = schedule.actions.emplace_back();
    const int warmup = std::min(num_microbatches, num_stages - stage - 1);
    for (int mb = 0; mb < warmup; ++mb) actions.push_back({stage, ActionPhase::kForward, mb});
    for (int mb = 0; mb < num_microbatches; ++mb) {
      if (warmup + mb < num_microbatches) {
        actions.push_back({stage, ActionPhase::kForward, warmup + mb});
      }
      actions.push_back({stage, ActionPhase::kBackward, mb});
    }
  }
  return schedule;
}

PipelineSchedule interleaved(int num_ranks, int stages_per_rank, int num_microbatches) {
  const int groups = std::max(1, num_microbatches / num_ranks);
  const int group = num_microbatches / groups;
  const int total = stages_per_rank * num_microbatches;
  PipelineSchedule schedule{num_ranks * stages_per_rank, num_microbatches, {}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto& actions = schedule.actions.emplace_back();
    const auto action = [&](ActionPhase phase, int k) {
      const int round = k / group % stages_per_rank;
      const int chunk = phase == ActionPhase::kForward ? round : stages_per_rank - 1 - round;
      const int mb = k / (group * stages_per_rank) * group + k % group;
      return Action{chunk * num_ranks + rank, phase, mb};
    };
    const int warmup = std::min(total, (stages_per_rank - 1) * group + 2 * (num_ranks - 1 - rank));
    for (int k = 0; k < warmup; ++k) actions.push_back(action(ActionPhase::kForward, k));
    for (int k = 0; k < total; ++k) {
      if (warmup + k < total) actions.push_back(action(ActionPhase::kForward, warmup + k));
      actions.push_back(action(ActionPhase::kBackward, k));
    }
  }
  return schedule;
}

std::variant<PipelineSchedule, Infeasible> make_schedule(const std::string& method, int num_ranks,
                                                         int stages_per_rank, int num_microbatches) {
  if (num_microbatches < 1) return Infeasible{"the step has no microbatch"};
  if (method == "interleaved") {
    const int groups = std::max(1, num_microbatches / num_ranks);
    if (num_ranks < 2) return Infeasible{"the interleaved schedule needs at least 2 pipeline ranks"};
    if (num_microbatches % groups != 0) {
      return Infeasible{"the interleaved schedule cannot divide " + std::to_string(num_microbatches) +
                        " microbatches into " + std::to_string(groups) + " equal groups for " +
                        std::to_string(num_ranks) + " pipeline ranks"};
    }
    return interleaved(num_ranks, stages_per_rank, num_microbatches);
  }
  if (stages_per_rank != 1) {
    return Infeasible{"schedule " + method + " runs one stage per rank, not " +
                      std::to_string(stages_per_rank) + "; interleaved runs several"};
  }
  if (method == "gpipe") return gpipe(num_ranks, num_microbatches);
  if (method == "1f1b") return one_f_one_b(num_ranks, num_microbatches);
  return Infeasible{"no schedule is called '" + method + "'; this version has gpipe, 1f1b, interleaved"};
}

namespace {

/// Times at which actions end, by what they are; -1: not yet.
class EndTimes {
 public:
  explicit EndTimes(const PipelineSchedule& schedule)
      : microbatches_(static_cast<std::size_t>(schedule.num_microbatches)),
        ends_(static_cast<std::size_t>(schedule.num_stages) * kLetters.size() * microbatches_, -1.0) {}
  double& of(const Action& action) {
    const auto stage = static_cast<std::size_t>(action.stage);
    return ends_[(stage * kLetters.size() + static_cast<std::size_t>(action.phase)) * microbatches_ +
                 static_cast<std::size_t>(action.microbatch)];
  }

 private:
  std::size_t microbatches_;
  std::vector<double> ends_;
};

double duration(const Action& action, const ActionDurations& durations) {
  switch (action.phase) {
    case ActionPhase::kForward: return durations.forward;
    case ActionPhase::kBackward: return durations.backward;
    case ActionPhase::kBackwardInput: return durations.input;
    case ActionPhase::kBackwardWeight: return durations.weight;
  }
  return 0;
}

/// What `action` waits for on other stages and its own; the first that has not ended, if any.
std::optional<Action> waits_for(const Action& action, EndTimes& ends, int last_stage, double& ready) {
  const auto need = [&](Action other) { ready = std::max(ready, ends.of(other)); return ends.of(other) < 0; };
  const int stage = action.stage;
  const int mb = action.microbatch;
  if (action.phase == ActionPhase::kForward) {
    const Action before{stage - 1, ActionPhase::kForward, mb};
    if (stage > 0 && need(before)) return before;
    return std::nullopt;
  }
  if (action.phase == ActionPhase::kBackwardWeight) {
    const Action input{stage, ActionPhase::kBackwardInput, mb};
    if (need(input)) return input;
    return std::nullopt;
  }
  if (stage < last_stage) {
    const Action whole{stage + 1, ActionPhase::kBackward, mb};
    const Action half{stage + 1, ActionPhase::kBackwardInput, mb};
    if (ends.of(whole) < 0 && ends.of(half) < 0) return whole;
    ready = std::max({ready, ends.of(whole), ends.of(half)});
  }
  const Action own{stage, ActionPhase::kForward, mb};
  if (need(own)) return own;
  return std::nullopt;
}

/// Every action once: F, and B or both of its halves, of every stage and microbatch.
std::optional<std::string> malformed(const PipelineSchedule& schedule) {
  std::vector<bool> seen(static_cast<std::size_t>(schedule.num_stages) * kLetters.size() *
                         static_cast<std::size_t>(schedule.num_microbatches));
  const auto at = [&](const Action& action) {
    return (static_cast<std::size_t>(action.stage) * kLetters.size() +
            static_cast<std::size_t>(action.phase)) * static_cast<std::size_t>(schedule.num_microbatches) +
           static_cast<std::size_t>(action.microbatch);
  };
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      if (action.stage < 0 || action.stage >= schedule.num_stages || action.microbatch < 0 ||
          action.microbatch >= schedule.num_microbatches) {
        return "rank " + std::to_string(rank) + ": " + to_string(action) + " is out of range";
      }
      if (seen[at(action)]) return to_string(action) + " appears twice";
      seen[at(action)] = true;
    }
  }
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    for (int mb = 0; mb < schedule.num_microbatches; ++mb) {
      const Action forward{stage, ActionPhase::kForward, mb};
      const Action whole{stage, ActionPhase::kBackward, mb};
      const Action input{stage, ActionPhase::kBackwardInput, mb};
      const Action weight{stage, ActionPhase::kBackwardWeight, mb};
      if (!seen[at(forward)]) return to_string(forward) + " is missing";
      const bool halves = seen[at(input)] || seen[at(weight)];
      if (halves && seen[at(whole)]) return to_string(whole) + " is there in whole and in halves";
      if (!halves && !seen[at(whole)]) return to_string(whole) + " is missing";
      if (halves && !seen[at(input)]) return to_string(input) + " is missing";
      if (halves && !seen[at(weight)]) return to_string(weight) + " is missing";
    }
  }
  return std::nullopt;
}

}  // namespace

std::variant<ScheduleTiming, Infeasible> time_schedule(const PipelineSchedule& schedule,
                                                       const ActionDurations& durations) {
  if (auto problem = malformed(schedule)) return Infeasible{*problem};
  const int ranks = schedule.num_ranks();
  EndTimes ends(schedule);
  ScheduleTiming timing;
  timing.starts.resize(static_cast<std::size_t>(ranks));
  timing.idle.assign(static_cast<std::size_t>(ranks), 0);
  std::vector<double> free(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> next(static_cast<std::size_t>(ranks), 0);
  // A rank runs as far as it can; what it did can only set going the ranks of neighbouring stages.
  std::vector<bool> listed(static_cast<std::size_t>(ranks), true);
  std::vector<std::size_t> to_run;
  for (auto r = static_cast<std::size_t>(ranks); r-- > 0;) to_run.push_back(r);
  while (!to_run.empty()) {
    const std::size_t r = to_run.back();
    to_run.pop_back();
    listed[r] = false;
    const auto& actions = schedule.actions[r];
    const std::size_t before = next[r];
    while (next[r] < actions.size()) {
      const Action& action = actions[next[r]];
      double ready = free[r];
      if (waits_for(action, ends, schedule.num_stages - 1, ready)) break;
      const double time = duration(action, durations);
      timing.starts[r].push_back(ready);
      timing.idle[r] -= time;
      free[r] = ends.of(action) = ready + time;
      ++next[r];
    }
    if (next[r] == before) continue;
    const auto p = static_cast<std::size_t>(ranks);
    for (const std::size_t neighbour : {(r + 1) % p, (r + p - 1) % p}) {
      if (listed[neighbour]) continue;
      listed[neighbour] = true;
      to_run.push_back(neighbour);
    }
  }
  std::string stuck;
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    if (next[r] == schedule.actions[r].size()) continue;
    const Action& action = schedule.actions[r][next[r]];
    double ready = 0;
    const auto cause = waits_for(action, ends, schedule.num_stages - 1, ready);
    if (!stuck.empty()) stuck += "; ";
    stuck += "rank " + std::to_string(r) + " step " + std::to_string(next[r]) + ": " +
             to_string(action) + " waits for " + (cause ? to_string(*cause) : "its rank");
  }
  if (!stuck.empty()) return Infeasible{stuck};
  timing.makespan = free.empty() ? 0 : *std::max_element(free.begin(), free.end());
  for (double& idle : timing.idle) idle += timing.makespan;
  return timing;
}

int peak_in_flight(const PipelineSchedule& schedule, int pipeline_rank) {
  int now = 0;
  int peak = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(pipeline_rank)]) {
    if (action.phase == ActionPhase::kForward) peak = std::max(peak, ++now);
    if (action.phase == ActionPhase::kBackward || action.phase == ActionPhase::kBackwardWeight) --now;
  }
  return peak;
}

}  // namespace trainyard
