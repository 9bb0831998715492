// Schedules with split backwards: idle times as formulas over many sizes, activations, PyTorch's
// own table, pairs that run together. The golden tables are in pipeline_schedule_test.cpp.
#include "engine/schedule/zero_bubble.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "engine/schedule/schedule_timing.h"

namespace trainyard::zero_bubble_test {

namespace {

ScheduleTiming timing(const PipelineSchedule& schedule, const ActionDurations& durations = {}) {
  const auto timed = time_schedule(schedule, durations);
  if (const auto* reason = std::get_if<Infeasible>(&timed)) FAIL(reason->reason);
  return std::get<ScheduleTiming>(timed);
}

}  // namespace

TEST_CASE("ZB-H1 idles (p-1)(F + I - W) with 1F1B's most activations on every rank") {
  // Qi et al., table 1: p-1 times F + I - W in place of 1F1B's F + I + W.
  const int p = GENERATE(1, 2, 3, 4, 8);
  const int m = p * GENERATE(1, 2, 3) + GENERATE(0, 1);
  const auto durations = GENERATE(ActionDurations{1, 2, 1, 1}, ActionDurations{3, 3, 2, 1},
                                  ActionDurations{2, 3, 2, 1.5});
  CAPTURE(p, m, durations.forward, durations.input, durations.weight);
  const PipelineSchedule schedule = zb_h1(p, m);
  const ScheduleTiming timed = timing(schedule, durations);
  for (int rank = 0; rank < p; ++rank) {
    CHECK(timed.idle[static_cast<std::size_t>(rank)] ==
          (p - 1) * (durations.forward + durations.input - durations.weight));
    CHECK(peak_in_flight(schedule, rank) == std::min(m, p));
  }
}

TEST_CASE("interleaved ZB1P is PyTorch's table") {
  // test/distributed/pipelining/artifacts/zb1p_2rank_2stagep_compute.csv of PyTorch (a8e954a5); an
  // empty cell is an idle slot.
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/pytorch_zb1p_2rank_2stagep_compute.csv");
  const PipelineSchedule schedule = interleaved_zb1p(2, 2, 8);
  std::string line;
  for (const auto& actions : schedule.actions) {
    REQUIRE(std::getline(file, line));
    std::vector<std::string> expected;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      if (!cell.empty() && cell != "\r") expected.push_back(cell.substr(0, cell.find('\r')));
    }
    CHECK(to_text(actions) == expected);
  }
}

TEST_CASE("V-shaped schedules run every action once, however few microbatches there are") {
  const int ranks = GENERATE(1, 2, 3, 4, 6);
  const int m = GENERATE(1, 2, 5, 12, 20);
  CAPTURE(ranks, m);
  std::vector<PipelineSchedule> schedules = {zb_v(ranks, m)};
  if (m >= 2 * ranks) schedules.push_back(dualpipe_v(ranks, m));
  for (const PipelineSchedule& schedule : schedules) {
    const ScheduleTiming timed = timing(schedule);  // which finds what is missing, doubled or stuck
    // Every rank has two stages of m forwards and backwards: 2 m (1 + 2).
    CHECK(timed.makespan >= 6 * m);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
        CHECK((action.stage == rank || action.stage == 2 * ranks - 1 - rank));
        CHECK(schedule.rank_of(action.stage) == rank);
      }
    }
  }
}

TEST_CASE("DualPipeV idles as its authors say") {
  // DualPipe's README, halved: (PP/2 - 1)(F&B + B - 3W) with PP = 2p stages; F&B = F + B = 3 here,
  // B = 2, W = 1: (p-1) 2 on every rank. 10 microbatches of 8 stages: 2 x 10 x 3 + 3 x 2 = 66.
  const int p = GENERATE(2, 4);
  const int m = GENERATE(8, 10);
  CAPTURE(p, m);
  const ScheduleTiming timed = timing(dualpipe_v(p, m), {1, 2, 1, 1});
  CHECK(timed.makespan == 6 * m + 2 * (p - 1));
  for (const double idle : timed.idle) CHECK(idle == 2 * (p - 1));
}

TEST_CASE("a pair starts when both may, and ends after both") {
  // Stage 0 and 1 on one rank. 0F0 0-1, 1F0 1-2, 1B0 needs only that: the pair (0F1;1B0) 2-5, then
  // 1F1 5-6, and so on.
  PipelineSchedule schedule{2,
                            2,
                            {{{0, ActionPhase::kForward, 0},
                              {1, ActionPhase::kForward, 0},
                              {0, ActionPhase::kForward, 1, true},
                              {1, ActionPhase::kBackward, 0},
                              {1, ActionPhase::kForward, 1},
                              {0, ActionPhase::kBackward, 0},
                              {1, ActionPhase::kBackward, 1},
                              {0, ActionPhase::kBackward, 1}}},
                            in_a_v(1)};
  CHECK(to_text(schedule.actions[0])[2] == "(0F1;1B0)OVERLAP_F_B");
  const ScheduleTiming timed = timing(schedule, {1, 2, 1, 1});
  CHECK(timed.starts[0] == std::vector<double>{0, 1, 2, 2, 5, 6, 8, 10});
  CHECK(timed.makespan == 12);
  schedule.actions[0][4].with_next = true;
  std::swap(schedule.actions[0][5],
            schedule.actions[0][6]);  // (1F1;1B1): the backward needs the forward beside it
  const auto stuck = time_schedule(schedule, ActionDurations{});
  REQUIRE(std::holds_alternative<Infeasible>(stuck));
  CHECK(std::get<Infeasible>(stuck).reason ==
        "1B1 cannot run together with 1F1: every backward needs all forwards of its microbatch");
  std::swap(schedule.actions[0][5], schedule.actions[0][0]);
  const auto none = time_schedule(schedule, ActionDurations{});
  REQUIRE(std::holds_alternative<Infeasible>(none));
  CHECK(std::get<Infeasible>(none).reason == "1F1 has no backward behind it to run with");
}

TEST_CASE("transfers are between ranks, and durations are of stages") {
  // 1F1B of 2 stages, F 1 and 2, B 3 and 4, transfers of 0.5. 0F0 0-1, 1F0 1.5-3.5, 1B0 3.5-7.5,
  // 0B0 8-11.
  const Numbered<ActionDurations> of_stage = {{1, 3, 1, 1}, {2, 4, 1, 1}};
  const auto timed = std::get<ScheduleTiming>(time_schedule(one_f_one_b(2, 1), of_stage, 0.5));
  CHECK(timed.starts[0] == std::vector<double>{0, 8});
  CHECK(timed.starts[1] == std::vector<double>{1.5, 3.5});
  CHECK(timed.makespan == 11);
  CHECK(timed.idle == std::vector<double>{7, 5});
  CHECK(timed.span_idle == std::vector<double>{7, 0});  // rank 1 is busy from 1.5 to 7.5
  // In a V stages 1 and 2 of 2 ranks are on one rank: no transfer there. F 0-1, 2-3, 3-4, 5-6.
  const Numbered<ActionDurations> unit(4, ActionDurations{1, 2, 1, 1});
  const auto v = std::get<ScheduleTiming>(time_schedule(zb_v(2, 1), unit, 1));
  CHECK(v.starts[1][0] == 2);
  CHECK(v.starts[1][1] == 3);
  CHECK(v.starts[0][1] == 5);
}

}  // namespace trainyard::zero_bubble_test
