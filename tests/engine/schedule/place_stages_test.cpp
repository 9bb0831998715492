// Several stages on one rank: the order by hand, and that any placement runs and keeps the memory
// that each stage's own order asks for.
#include "engine/schedule/place_stages.h"

#include <algorithm>
#include <random>

#include "engine/schedule/opportunistic.h"
#include "tests/support/golden.h"

namespace trainyard::place_stages_test {

namespace {

using Words = std::vector<std::string>;

/// Neighbours differ, and no rank below the last is left out.
StageRanks random_placement(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int ranks = draw(2, 5);
  StageRanks on = one_each(ranks);
  std::shuffle(on.begin(), on.end(), random);
  for (int more = draw(0, 5); more > 0; --more)
    on.push_back((on.back() + draw(1, ranks - 1)) % ranks);
  return on;
}

/// A stage's actions, in the order in which its rank runs them.
std::vector<Action> of_stage(const PipelineSchedule& schedule, int stage) {
  std::vector<Action> out;
  for (const Action& action : schedule.actions[schedule.rank_of(stage)]) {
    if (action.stage == stage) out.push_back(action);
  }
  return out;
}

}  // namespace

TEST_CASE("a rank with the first and the last stage runs what can start first") {
  // F 1, B 2. Rank 0: 0F0 0-1, 0F1 1-2; rank 1: 1F0 1-2, 1F1 2-3. At 2 rank 0 has 2F0 2-3, then
  // 2B0 3-5 goes before 2F1, for the stage's own order is F B F B; 2F1 5-6, 2B1 6-8. Rank 1 has 1B0
  // 5-7 and 1B1 8-10; rank 0 0B0 8-10 (ready at 7, behind 2B1) and 0B1 10-12.
  const PipelineSchedule placed = place_stages(one_f_one_b(3, 2), {0, 1, 0});
  CHECK(to_text(placed.actions[0]) ==
        Words{"0F0", "0F1", "2F0", "2B0", "2F1", "2B1", "0B0", "0B1"});
  CHECK(to_text(placed.actions[1]) == Words{"1F0", "1F1", "1B0", "1B1"});
  CHECK(time_schedule(placed, {}).index() == 0);
  CHECK(std::get<ScheduleTiming>(time_schedule(placed, {})).makespan == 12);
}

TEST_CASE("one stage on each rank is the schedule as it was") {
  for (const int ranks : {1, 2, 5}) {
    for (const int microbatches : {1, 3, 9}) {
      const PipelineSchedule each = one_f_one_b(ranks, microbatches);
      CHECK(place_stages(each, one_each(ranks)).actions == each.actions);
    }
  }
}

TEST_CASE("stages on any ranks run to the end, each in its own order") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const StageRanks on = random_placement(random);
    const auto stages = static_cast<int>(on.size());
    const int microbatches = std::uniform_int_distribution<int>(1, 9)(random);
    CAPTURE(on, microbatches);
    for (const PipelineSchedule& each :
         {one_f_one_b(stages, microbatches), gpipe(stages, microbatches)}) {
      const PipelineSchedule placed = place_stages(each, on);
      CHECK(!find_fault(placed));
      for (int stage = 0; stage < stages; ++stage)
        CHECK(of_stage(placed, stage) == each.actions[stage]);
    }
    const Numbered<ActionDurations> durations(stages, ActionDurations{2, 3});
    const PipelineSchedule ready = opportunistic(durations, 1, microbatches, 3, on);
    CHECK(!find_fault(ready));
    CHECK(std::get<ScheduleTiming>(time_schedule(ready, durations, 1)).makespan > 0);
  }
}

}  // namespace trainyard::place_stages_test
