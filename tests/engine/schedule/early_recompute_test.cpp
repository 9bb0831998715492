// Schedules with recompute: Merak's own rows with their start times, and its makespans as formulas.
#include "engine/schedule/early_recompute.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard::early_recompute_test {

namespace {

PipelineSchedule named(const std::string& name, int stages, int microbatches) {
  auto made = schedule_by_name(name, stages, 1, microbatches, true);
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<PipelineSchedule>(made);
}

ScheduleTiming timing(const PipelineSchedule& schedule) {
  const auto timed = time_schedule(schedule, {1, 2, 1, 1, 1});
  if (const auto* reason = std::get_if<Infeasible>(&timed)) FAIL(reason->reason);
  return std::get<ScheduleTiming>(timed);
}

/// "F0@0 R0*@3 B0@4": the golden table's form of a row.
std::string timed_row(const PipelineSchedule& schedule, const ScheduleTiming& timed,
                      std::size_t rank) {
  std::string row;
  for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
    const std::string action = to_string(schedule.actions[rank][i]);
    char start[32];
    std::snprintf(start, sizeof start, "@%g", timed.starts[rank][i]);
    row += (row.empty() ? "" : " ") + action.substr(action.find_first_of("FBR")) + start;
  }
  return row;
}

}  // namespace

TEST_CASE("schedules with recompute equal Merak's rows and start times") {
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/merak_schedules.json");
  const auto golden = nlohmann::json::parse(file);
  int cases = 0;
  for (const auto& expected : golden["cases"]) {
    const std::string name = expected["schedule"];
    const int stages = expected["stages"];
    const int microbatches = expected["microbatches"];
    CAPTURE(name, stages, microbatches);
    const PipelineSchedule schedule = named(name, stages, microbatches);
    const ScheduleTiming timed = timing(schedule);
    CHECK(timed.makespan == expected["makespan"].get<double>());
    CHECK(timed.idle == expected["idle"].get<std::vector<double>>());
    CHECK(pipe_buffers(stages, microbatches) == expected["pipe_buffers"].get<std::vector<int>>());
    ++cases;
    if (expected["rows"].is_null()) continue;
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      CHECK(timed_row(schedule, timed, rank) == expected["rows"][rank].get<std::string>());
    }
  }
  CHECK(cases == 24);
}

TEST_CASE("makespans with recompute are Merak's formulas") {
  // Lai et al., section 5.2, unit F and R, B = 2; last-no-recompute as executed.
  for (int s = 2; s <= 12; ++s) {
    for (int m = std::max(4, s); m <= 3 * s; ++m) {
      CAPTURE(s, m);
      CHECK(timing(named("1f1b", s, m)).makespan == 4 * m + 4 * (s - 1));
      CHECK(timing(named("pre-recompute", s, m)).makespan == 4 * m + 3 * (s - 1));
      CHECK(timing(named("last-no-recompute", s, m)).makespan == 4 * m + 3 * (s - 2) + 1);
      CHECK(timing(named("scp", s, m)).makespan == 4 * m + 3 * (s - 2));
    }
  }
}

TEST_CASE(
    "recompute after the backward that needs it is refused, and so is what a schedule cannot "
    "serve") {
  PipelineSchedule schedule = with_recompute(one_f_one_b(1, 1));
  CHECK(to_text(schedule.actions[0]) == std::vector<std::string>{"0F0", "0R0", "0B0"});
  std::swap(schedule.actions[0][1], schedule.actions[0][2]);
  const auto late = time_schedule(schedule, ActionDurations{});
  REQUIRE(std::holds_alternative<Infeasible>(late));
  CHECK(std::get<Infeasible>(late).reason == "0R0 comes after the backward that needs it");

  const auto reason = [](const std::string& name, int ranks, int stages_per_rank,
                         int microbatches) {
    const auto made = schedule_by_name(name, ranks, stages_per_rank, microbatches, false);
    const auto* infeasible = std::get_if<Infeasible>(&made);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason("scp", 4, 1, 4) == "none");
  CHECK_THAT(reason("scp", 6, 1, 5), Catch::Contains("as many microbatches as stages"));
  CHECK_THAT(reason("scp", 2, 1, 3), Catch::Contains("4 of them, not 3"));
  CHECK_THAT(reason("scp", 1, 1, 8), Catch::Contains("at least 2 pipeline ranks"));
  // As a study says of all that recompute early.
  CHECK_THAT(reason("pre-recompute-1f1b", 4, 1, 2), Catch::Contains("4 of them, not 2"));
  CHECK_THAT(reason("zb-v", 4, 1, 8), Catch::Contains("exactly 2 stages per rank, not 1"));
  CHECK_THAT(reason("dualpipe-v", 4, 2, 7), Catch::Contains("8 of them, not 7"));
  CHECK_THAT(reason("interleaved-zb1p", 4, 2, 13),
             Catch::Contains("13 microbatches into 3 equal groups"));
  CHECK_THAT(reason("zb-h1", 4, 2, 8), Catch::Contains("one stage per rank, not 2"));
  CHECK_THAT(reason("zigzag", 2, 1, 4), Catch::Contains("'zigzag'"));
}

}  // namespace trainyard::early_recompute_test
