// The interleaved schedule with groups of microbatches of a given size (Megatron-LM's
// microbatch_group_size_per_vp_stage).
#include <algorithm>

#include "tests/support/golden.h"

namespace trainyard::interleaved_groups_test {

namespace {

std::variant<PipelineSchedule, Infeasible> grouped(int ranks, int stages_per_rank, int microbatches,
                                                   int group) {
  ScheduleSettings settings;
  settings.microbatch_group = group;
  return schedule_by_name("interleaved", ranks, stages_per_rank, microbatches, false, settings);
}

}  // namespace

TEST_CASE("a group goes through all stages of a rank before the next; the last has what is left") {
  // 2 ranks of 2 stages, groups of 4 and 2. Rank 1: 4 + 2 x 0 forwards first, then one of each.
  const auto made = grouped(2, 2, 6, 4);
  REQUIRE(std::holds_alternative<PipelineSchedule>(made));
  CHECK(to_text(std::get<PipelineSchedule>(made).actions[1]) ==
        std::vector<std::string>{"1F0", "1F1", "1F2", "1F3", "3F0", "3B0", "3F1", "3B1",
                                 "3F2", "3B2", "3F3", "3B3", "1F4", "1B0", "1F5", "1B1",
                                 "3F4", "1B2", "3F5", "1B3", "3B4", "3B5", "1B4", "1B5"});
}

TEST_CASE("groups of at least p microbatches idle as those of p, and hold (v-1)(g-p) more") {
  // m t + (p-1) t / v with t = v (F + B) = 3 v; in flight on rank r: its warm-up and one more.
  const int p = GENERATE(2, 3, 4, 6);
  const int v = GENERATE(2, 3, 4);
  for (int m = p; m <= 4 * p; ++m) {
    for (int g = p; g <= m; ++g) {
      if (m % g != 0 && m % g < p) continue;
      CAPTURE(p, v, m, g);
      const auto made = grouped(p, v, m, g);
      REQUIRE(std::holds_alternative<PipelineSchedule>(made));
      const auto& schedule = std::get<PipelineSchedule>(made);
      const auto timed = time_schedule(schedule, ActionDurations{});
      REQUIRE(std::holds_alternative<ScheduleTiming>(timed));
      CHECK(std::get<ScheduleTiming>(timed).makespan == 3 * v * m + 3 * (p - 1));
      for (int r = 0; r < p; ++r)
        CHECK(peak_in_flight(schedule, r) == std::min(v * m, (v - 1) * g + 2 * (p - 1 - r) + 1));
    }
  }
}

TEST_CASE("groups that Megatron-LM refuses are refused") {
  const auto reason = [](int ranks, int microbatches, int group) {
    const auto made = grouped(ranks, 2, microbatches, group);
    const auto* infeasible = std::get_if<Infeasible>(&made);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason(4, 12, 5) ==
        "12 microbatches in groups of 5 leave 2, fewer than the 4 pipeline ranks, which would wait "
        "for them");
  CHECK(reason(4, 12, 8) == "none");  // 8 and 4
  CHECK(reason(4, 12, 3) ==
        "a microbatch_group is from 4, the pipeline ranks, to 12, the microbatches, not 3");
  CHECK_THAT(reason(4, 12, 13), Catch::Contains("to 12"));
}

}  // namespace trainyard::interleaved_groups_test
