// SageMaker's opportunistic schedule: the order by hand, and its rule checked at every start.
#include "engine/schedule/opportunistic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/support/golden.h"

namespace trainyard::opportunistic_test {

namespace {

using Words = std::vector<std::string>;

/// When each action's inputs are there, from the times of all.
class ReadyTimes {
 public:
  ReadyTimes(const PipelineSchedule& schedule, const ScheduleTiming& timed,
             const Numbered<ActionDurations>& of_stage, double transfer, int active)
      : transfer_(transfer),
        active_(active),
        last_(schedule.num_stages - 1) {
    for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
      for (std::size_t i = 0; i < schedule.actions[r].size(); ++i) {
        const Action& action = schedule.actions[r][i];
        ends_[action] = timed.starts[r][i] + duration(action, of_stage[r]);
      }
    }
  }
  double of(const Action& action) const {
    const auto end = [&](int stage, ActionPhase phase, int mb) {
      return ends_.at({stage, phase, mb});
    };
    const int mb = action.microbatch;
    if (action.phase == ActionPhase::kForward) {
      if (action.stage > 0) return end(action.stage - 1, ActionPhase::kForward, mb) + transfer_;
      return mb < active_ ? 0 : end(0, ActionPhase::kBackward, mb - active_);
    }
    const double own = end(action.stage, ActionPhase::kForward, mb);
    if (action.stage == last_) return own;
    return std::max(own, end(action.stage + 1, ActionPhase::kBackward, mb) + transfer_);
  }

 private:
  double transfer_;
  int active_;
  int last_;
  std::map<Action, double> ends_;
};

}  // namespace

TEST_CASE("two ranks run what is ready, a backward first") {
  // F 1, B 2. Rank 0: F0 0-1, F1 1-2, F2 2-3, then B0 comes at 4. Rank 1: F0 1-2; at 2 both F1 and
  // B0 are ready: B0 2-4; at 4 F1 4-5, B1 5-7, F2 7-8, B2 8-10.
  const Numbered<ActionDurations> of_stage(2);
  const auto schedule = opportunistic(of_stage, 0, 3, 4);
  CHECK(to_text(schedule.actions[0]) == Words{"0F0", "0F1", "0F2", "0B0", "0B1", "0B2"});
  CHECK(to_text(schedule.actions[1]) == Words{"1F0", "1B0", "1F1", "1B1", "1F2", "1B2"});
  const auto timed = std::get<ScheduleTiming>(time_schedule(schedule, of_stage, 0));
  CHECK(timed.starts[0] == std::vector<double>{0, 1, 2, 4, 7, 10});
  CHECK(timed.starts[1] == std::vector<double>{1, 2, 4, 5, 7, 8});
  // With one active microbatch each goes through both ranks and back before the next: 3 x 6.
  const auto one = opportunistic(of_stage, 0, 3, 1);
  CHECK(to_text(one.actions[0]) == Words{"0F0", "0B0", "0F1", "0B1", "0F2", "0B2"});
  CHECK(std::get<ScheduleTiming>(time_schedule(one, of_stage, 0)).makespan == 18);
}

TEST_CASE("a slow stage makes the ones before it run ahead, as far as active microbatches allow") {
  // Rank 1 takes 10 for a forward: rank 0 runs all 4 that may be active before its first backward.
  const Numbered<ActionDurations> of_stage = {{1, 2, 1, 1, 1}, {10, 20, 1, 1, 1}};
  const auto schedule = opportunistic(of_stage, 0, 6, 4);
  CHECK(to_text(schedule.actions[0]) ==
        Words{"0F0", "0F1", "0F2", "0F3", "0B0", "0F4", "0B1", "0F5", "0B2", "0B3", "0B4", "0B5"});
  CHECK(peak_in_flight(schedule, 0) == 4);
}

TEST_CASE("on equal stages it takes as long as 1F1B") {
  // The last rank runs F and B in turn from the first input on: (m + p - 1)(F + B).
  for (int p = 2; p <= 12; ++p) {
    for (int m = std::max(4, p); m <= 3 * p; ++m) {
      CAPTURE(p, m);
      const auto schedule = schedule_named("opportunistic", p, 1, m);  // p + 2 active
      const auto timed = std::get<ScheduleTiming>(time_schedule(schedule, ActionDurations{}));
      CHECK(timed.makespan == 3 * (m + p - 1));
      CHECK(peak_in_flight(schedule, 0) <= p + 2);
    }
  }
}

TEST_CASE("no rank waits while it could run, and none runs a forward while a backward is ready") {
  const int seed = GENERATE(range(0, 40));
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int p = draw(1, 6);
  const int m = draw(1, 12);
  const int active = draw(1, p + 3);
  const double transfer = draw(0, 8) / 8.0;
  Numbered<ActionDurations> of_stage(static_cast<std::size_t>(p));
  for (ActionDurations& durations : of_stage)
    durations = {draw(1, 24) / 8.0, draw(1, 48) / 8.0, 1, 1, 1};  // eighths: sums are exact
  const auto schedule = opportunistic(of_stage, transfer, m, active);
  const auto timed = time_schedule(schedule, of_stage, transfer);
  REQUIRE(std::holds_alternative<ScheduleTiming>(timed));
  const auto& times = std::get<ScheduleTiming>(timed);
  const ReadyTimes ready(schedule, times, of_stage, transfer, active);
  CAPTURE(seed, p, m, active, transfer);
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    double free = 0;
    int forwards = 0;
    int backwards = 0;
    for (std::size_t i = 0; i < schedule.actions[r].size(); ++i) {
      const Action& action = schedule.actions[r][i];
      const double start = times.starts[r][i];
      const auto stage = static_cast<int>(r);
      const double forward =
          forwards < m ? ready.of({stage, ActionPhase::kForward, forwards}) : INFINITY;
      const double backward =
          backwards < forwards ? ready.of({stage, ActionPhase::kBackward, backwards}) : INFINITY;
      CHECK(start == std::max(free, std::min(forward, backward)));
      CHECK((action.phase == ActionPhase::kBackward) == (backward <= start));
      free = start + duration(action, of_stage[r]);
      (action.phase == ActionPhase::kBackward ? backwards : forwards) += 1;
    }
  }
}

}  // namespace trainyard::opportunistic_test
