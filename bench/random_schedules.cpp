// Schedules at random, as their generators make them and broken in one to three places: what
// time_schedule() says of each must be what an execution by trial says, and its start times those
// of a longest path. A difference ends the program with exit 1.
//   random_schedules [how many] [first seed]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "engine/schedule/early_recompute.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

namespace {

using Place = std::pair<std::size_t, std::size_t>;  // rank, position

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int operator()(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }

 private:
  std::mt19937 random_;
};

std::optional<PipelineSchedule> valid_schedule(Draw& draw) {
  const auto& names = schedule_names();
  const std::string name(
      names[static_cast<std::size_t>(draw(0, static_cast<int>(names.size()) - 1))].name);
  const bool v = name == "zb-v" || name == "dualpipe-v";
  const bool many = name.starts_with("interleaved");
  const int ranks = draw(1, 5);
  auto made = schedule_by_name(name, ranks,
                               v      ? 2
                               : many ? draw(1, 3)
                                      : 1,
                               draw(1, 10), draw(0, 1) == 1);
  auto* schedule = std::get_if<PipelineSchedule>(&made);
  return schedule == nullptr ? std::nullopt : std::optional(std::move(*schedule));
}

/// Any action of the schedule, or nullptr where a rank has none.
Action* any_action(PipelineSchedule& schedule, Draw& draw, Place& place) {
  place.first = static_cast<std::size_t>(draw(0, schedule.num_ranks() - 1));
  auto& row = schedule.actions[place.first];
  if (row.empty()) return nullptr;
  place.second = static_cast<std::size_t>(draw(0, static_cast<int>(row.size()) - 1));
  return &row[place.second];
}

void break_somewhere(PipelineSchedule& schedule, Draw& draw) {
  Place place;
  Action* action = any_action(schedule, draw, place);
  if (action == nullptr) return;
  auto& row = schedule.actions[place.first];
  const auto at = row.begin() + static_cast<std::ptrdiff_t>(place.second);
  const auto other = row.begin() + draw(0, static_cast<int>(row.size()) - 1);
  switch (draw(0, 9)) {
    case 0: row.erase(at); return;
    case 1: row.insert(other, Action(*action)); return;
    case 2:
    case 3: std::iter_swap(at, other); return;
    case 4: {
      const Action moved = *action;
      row.erase(at);
      row.insert(row.begin() + draw(0, static_cast<int>(row.size())), moved);
      return;
    }
    case 5: action->microbatch += draw(-1, 1); return;
    case 6: action->stage += draw(-1, 1); return;
    case 7: action->phase = static_cast<ActionPhase>(draw(0, kNumActionPhases - 1)); return;
    case 8: action->with_next = !action->with_next; return;
    default: {
      Place target;
      Action* theirs = any_action(schedule, draw, target);
      if (theirs != nullptr) std::swap(*action, *theirs);
    }
  }
}

bool is_gradient(ActionPhase phase) {
  return phase == ActionPhase::kBackward || phase == ActionPhase::kBackwardInput;
}

/// A schedule as a table of who is where, and what each waits for, written down anew.
class Trial {
 public:
  Trial(const PipelineSchedule& schedule, const Numbered<ActionDurations>& of_stage,
        double transfer)
      : schedule_(schedule),
        of_stage_(of_stage),
        transfer_(transfer) {}

  bool well_formed() {
    for (std::size_t rank = 0; rank < schedule_.actions.size(); ++rank) {
      const auto& row = schedule_.actions[rank];
      for (std::size_t i = 0; i < row.size(); ++i) {
        const Action& a = row[i];
        if (a.stage < 0 || a.stage >= schedule_.num_stages || a.microbatch < 0 ||
            a.microbatch >= schedule_.num_microbatches ||
            schedule_.rank_of(a.stage) != static_cast<int>(rank))
          return false;
        if (!where_.insert({{a.stage, a.microbatch, a.phase}, {rank, i}}).second) return false;
        if (a.with_next && (a.phase != ActionPhase::kForward || i + 1 == row.size() ||
                            row[i + 1].phase != ActionPhase::kBackward || row[i + 1].with_next))
          return false;
      }
    }
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      for (int mb = 0; mb < schedule_.num_microbatches; ++mb) {
        const int whole = count(stage, mb, ActionPhase::kBackward);
        const int halves = count(stage, mb, ActionPhase::kBackwardInput) +
                           count(stage, mb, ActionPhase::kBackwardWeight);
        if (count(stage, mb, ActionPhase::kForward) != 1 || 2 * whole + halves != 2 || halves == 1)
          return false;
        for (const auto again : {ActionPhase::kRecompute, ActionPhase::kEarlyRecompute}) {
          if (count(stage, mb, again) == 1 &&
              where_.at({stage, mb, again}).second > gradient(stage, mb).second)
            return false;
        }
      }
    }
    return true;
  }

  /// Runs what can run until nothing can; the ranks that are not at their end, with their
  /// positions.
  std::set<Place> stuck_at() {
    std::vector<std::size_t> next(schedule_.actions.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const auto& row = schedule_.actions[rank];
        if (next[rank] == row.size()) continue;
        const std::size_t length = row[next[rank]].with_next ? 2 : 1;
        bool ready = true;
        for (std::size_t i = 0; i < length; ++i) {
          for (const Place& cause : causes(row[next[rank] + i]))
            ready &= next[cause.first] > cause.second;
        }
        if (!ready) continue;
        next[rank] += length;
        progress = true;
      }
    }
    std::set<Place> stuck;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] < schedule_.actions[rank].size()) stuck.insert({rank, next[rank]});
    }
    return stuck;
  }

  /// Start times by relaxing every constraint until none moves a start any more.
  std::vector<std::vector<double>> longest_path() {
    std::vector<std::vector<double>> starts;
    for (const auto& row : schedule_.actions) starts.emplace_back(row.size(), 0.0);
    const auto end_of = [&](const Place& place) {
      const auto& row = schedule_.actions[place.first];
      std::size_t first = place.second;
      if (first > 0 && row[first - 1].with_next) --first;
      double end = starts[place.first][first] + duration(row[first], of(row[first]));
      if (row[first].with_next) end += duration(row[first + 1], of(row[first + 1]));
      return end;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < starts.size(); ++rank) {
        const auto& row = schedule_.actions[rank];
        for (std::size_t i = 0; i < row.size(); ++i) {
          const std::size_t first = i > 0 && row[i - 1].with_next ? i - 1 : i;
          double start = std::max(starts[rank][i], starts[rank][first]);
          if (first > 0) start = std::max(start, end_of({rank, first - 1}));
          for (std::size_t part = first; part < first + (row[first].with_next ? 2 : 1); ++part) {
            for (const Place& cause : causes(row[part]))
              start = std::max(start, end_of(cause) + (cause.first == rank ? 0 : transfer_));
          }
          if (start == starts[rank][i]) continue;
          starts[rank][i] = start;
          moved = true;
        }
      }
    }
    return starts;
  }

 private:
  int count(int stage, int mb, ActionPhase phase) const {
    return static_cast<int>(where_.count({stage, mb, phase}));
  }
  Place gradient(int stage, int mb) const {
    const auto whole = where_.find({stage, mb, ActionPhase::kBackward});
    return whole != where_.end() ? whole->second
                                 : where_.at({stage, mb, ActionPhase::kBackwardInput});
  }
  const ActionDurations& of(const Action& action) const {
    return of_stage_[static_cast<std::size_t>(action.stage)];
  }
  std::vector<Place> causes(const Action& a) const {
    std::vector<Place> places;
    if (a.phase == ActionPhase::kForward) {
      if (a.stage > 0)
        places.push_back(where_.at({a.stage - 1, a.microbatch, ActionPhase::kForward}));
      return places;
    }
    if (a.phase == ActionPhase::kBackwardWeight)
      return {where_.at({a.stage, a.microbatch, ActionPhase::kBackwardInput})};
    places.push_back(where_.at({a.stage, a.microbatch, ActionPhase::kForward}));
    const bool waits = is_gradient(a.phase) || a.phase == ActionPhase::kRecompute;
    if (waits && a.stage + 1 < schedule_.num_stages)
      places.push_back(gradient(a.stage + 1, a.microbatch));
    return places;
  }

  const PipelineSchedule& schedule_;
  const Numbered<ActionDurations>& of_stage_;
  double transfer_;
  std::map<std::tuple<int, int, ActionPhase>, Place> where_;
};

/// "rank 1 step 3: ..." of every stuck rank.
std::set<Place> named_in(const std::string& reason) {
  std::set<Place> places;
  for (std::size_t at = 0; (at = reason.find("rank ", at)) != std::string::npos; ++at) {
    unsigned long rank = 0;
    unsigned long step = 0;
    if (std::sscanf(reason.c_str() + at, "rank %lu step %lu:", &rank, &step) == 2)
      places.insert({rank, step});
  }
  return places;
}

enum class Outcome { kRuns, kMalformed, kStuck, kDiffers };

Outcome compare(const PipelineSchedule& schedule, Draw& draw) {
  Numbered<ActionDurations> of_stage(static_cast<std::size_t>(schedule.num_stages));
  for (ActionDurations& durations : of_stage) {  // eighths: sums are exact in any order
    durations = {draw(1, 16) / 8.0, draw(1, 32) / 8.0, draw(1, 16) / 8.0, draw(1, 16) / 8.0,
                 draw(1, 16) / 8.0};
  }
  const double transfer = draw(0, 8) / 8.0;
  const auto said = time_schedule(schedule, of_stage, transfer);
  const auto* reason = std::get_if<Infeasible>(&said);
  Trial trial(schedule, of_stage, transfer);
  if (!trial.well_formed())
    return reason != nullptr && named_in(reason->reason).empty() ? Outcome::kMalformed
                                                                 : Outcome::kDiffers;
  const std::set<Place> stuck = trial.stuck_at();
  if (reason != nullptr)
    return !stuck.empty() && named_in(reason->reason) == stuck ? Outcome::kStuck
                                                               : Outcome::kDiffers;
  const bool same = stuck.empty() && std::get<ScheduleTiming>(said).starts == trial.longest_path();
  return same ? Outcome::kRuns : Outcome::kDiffers;
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  const int count = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const unsigned first = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  std::map<Outcome, int> outcomes;
  for (unsigned seed = first; static_cast<int>(seed - first) < count; ++seed) {
    Draw draw(seed);
    auto schedule = valid_schedule(draw);
    while (!schedule) schedule = valid_schedule(draw);
    const int breaks = draw(0, 3);
    for (int i = 0; i < breaks; ++i) break_somewhere(*schedule, draw);
    const Outcome outcome = compare(*schedule, draw);
    ++outcomes[outcome];
    if (outcome == Outcome::kDiffers) {
      std::printf("seed %u: time_schedule() and the trial differ\n", seed);
      return 1;
    }
  }
  std::printf(
      "%d schedules: %d run, with equal start times; %d malformed; %d stuck, at the same actions\n",
      count, outcomes[Outcome::kRuns], outcomes[Outcome::kMalformed], outcomes[Outcome::kStuck]);
  return 0;
}
