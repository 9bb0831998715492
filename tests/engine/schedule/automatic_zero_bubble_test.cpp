// ZB-1p and ZB-2p: no idle time where there need be none, never longer than ZB-H1, never over the
// limit on activations.
#include "engine/schedule/automatic_zero_bubble.h"

#include <algorithm>

#include "engine/schedule/whole_backwards.h"
#include "engine/schedule/zero_bubble.h"
#include "tests/support/golden.h"

namespace trainyard::automatic_zero_bubble_test {

namespace {

PipelineSchedule searched(const std::string& name, int ranks, int microbatches,
                          const ScheduleSettings& settings = {}) {
  auto made = schedule_by_name(name, ranks, 1, microbatches, false, settings);
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<PipelineSchedule>(made);
}

ScheduleTiming timing(const PipelineSchedule& schedule, const ScheduleSettings& settings) {
  Numbered<ActionDurations> of_stage = settings.of_stage;
  if (of_stage.empty()) of_stage.resize(static_cast<std::size_t>(schedule.num_stages));
  const auto timed = time_schedule(schedule, of_stage, settings.transfer);
  if (const auto* reason = std::get_if<Infeasible>(&timed)) FAIL(reason->reason);
  return std::get<ScheduleTiming>(timed);
}

double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

int peak(const PipelineSchedule& schedule) {
  int most_held = 0;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank)
    most_held = std::max(most_held, peak_in_flight(schedule, rank));
  return most_held;
}

}  // namespace

TEST_CASE("with F = I = W ZB-2p idles nowhere, once there are 2p - 1 microbatches") {
  // The first gradient is back at rank 0 after p forwards and p-1 I: 2p - 1. So long rank 0 has
  // forwards to run; with m < 2p - 1 of them it waits for 2p - 1 - m. A rank's activations then are
  // at most those 2p - 1 and what the search adds, 2p.
  for (int p = 2; p <= 12; ++p) {
    for (int m = std::max(4, p); m <= 3 * p; ++m) {
      CAPTURE(p, m);
      const PipelineSchedule schedule = searched("zb-2p", p, m);
      CHECK(most(timing(schedule, {}).span_idle) == std::max(0, 2 * p - 1 - m));
      CHECK(peak(schedule) <= 2 * p);
    }
  }
}

TEST_CASE("with F = I = W ZB-1p idles as ZB-H1 in the memory of 1F1B, ZB-H1 (p-1-r)(F + I - W)") {
  // Qi et al., table 1. Rank r starts r F later than rank 0, and waits for a gradient r (I - W)
  // less.
  for (int p = 2; p <= 12; ++p) {
    for (int m = std::max(4, p); m <= 3 * p; ++m) {
      CAPTURE(p, m);
      const PipelineSchedule schedule = searched("zb-1p", p, m);
      CHECK(most(timing(schedule, {}).span_idle) == p - 1);
      CHECK(peak(schedule) <= p);
      const auto handmade = timing(zb_h1(p, m), {});
      for (int rank = 0; rank < p; ++rank)
        CHECK(handmade.span_idle[static_cast<std::size_t>(rank)] == p - 1 - rank);
    }
  }
}

TEST_CASE(
    "for any durations and transfers the search is no longer than ZB-H1 and keeps its limit") {
  const double forward = GENERATE(1.0, 2.0, 3.0);
  const double input = GENERATE(1.0, 2.0, 3.0);
  const double weight = GENERATE(0.5, 1.0, 2.0, 3.0);
  const double transfer = GENERATE(0.0, 0.25);
  for (const int p : {2, 4, 7}) {
    for (const int m : {p, 2 * p + 1, 4 * p}) {
      CAPTURE(forward, input, weight, transfer, p, m);
      ScheduleSettings settings;
      settings.of_stage.assign(static_cast<std::size_t>(p),
                               {forward, input + weight, input, weight, 0});
      settings.transfer = transfer;
      const double handmade = timing(zb_h1(p, m), settings).makespan;
      for (const auto& [name, limit] : {std::pair("zb-1p", p), std::pair("zb-2p", 2 * p)}) {
        const PipelineSchedule schedule = searched(name, p, m, settings);
        CHECK(timing(schedule, settings).makespan <= handmade + 1e-9);
        CHECK(peak(schedule) <= limit);
      }
    }
  }
}

TEST_CASE("a limit on memory is kept, down to one microbatch, on unequal stages too") {
  const int limit = GENERATE(1, 2, 3, 5, 64);
  ScheduleSettings settings;
  settings.of_stage = {{2, 3, 2, 1, 0}, {1, 5, 3, 2, 0}, {3, 2, 1, 1, 0}, {1, 5, 1, 4, 0}};
  settings.memory_limit = limit;
  const PipelineSchedule schedule = searched("zb-1p", 4, 9, settings);
  CAPTURE(limit);
  CHECK(peak(schedule) <= limit);
  // With one microbatch at a time each goes through all stages and back, 2+1+3+1 + 1+1+3+2, and
  // stage 0's W of 1 makes room for the next: 9 x 15. More room is no longer, and stage 1's work is
  // 9 x 6.
  const double makespan = timing(schedule, settings).makespan;
  CHECK(makespan >= 54);
  CHECK(makespan <= 135);
  if (limit == 1) CHECK(makespan == 135);
}

TEST_CASE("on uneven stages the search is an order that runs, no slower than what it may take") {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const int p = 2 + static_cast<int>(random() % 5), m = 1 + static_cast<int>(random() % 12);
    CAPTURE(trial, p, m);
    ScheduleSettings settings;
    for (int stage = 0; stage < p; ++stage) {
      const auto time = [&] { return 1 + static_cast<double>(random() % 3); };
      ActionDurations of{time(), 0, time(), time(), 0};
      const bool hides =
          trial % 2 == 1;  // collectives behind weight gradients, where they are whole
      of.backward = std::max(of.input, of.input + of.weight - (hides ? time() / 2 : 0));
      settings.of_stage.push_back(of);
    }
    settings.transfer = random() % 2 == 0 ? 0 : 0.5;
    const auto makespan = [&](const PipelineSchedule& schedule) {
      REQUIRE_FALSE(find_fault(schedule));
      return timing(schedule, settings).makespan;
    };
    const double zb_1p = makespan(searched("zb-1p", p, m, settings));
    CHECK(zb_1p <= makespan(zb_h1(p, m)));
    CHECK(zb_1p <= makespan(one_f_one_b(p, m)));
    CHECK(makespan(searched("zb-2p", p, m, settings)) <= zb_1p);
  }
}

TEST_CASE("halves are joined up to the last forward, and a W goes to the I that it stands behind") {
  // ZB-H1 puts rank r's W off by r backwards: of 3 ranks and 5 microbatches
  //   rank 0   F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
  //   rank 1   F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
  //   rank 2   F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
  // The W between an I and the last forward becomes that I's; those put off stay, and are done at
  // the end.
  const auto text = [](const PipelineSchedule& schedule, std::size_t rank) {
    std::string words;
    for (const std::string& word : to_text(schedule.actions[rank])) words += word.substr(1) + " ";
    return words;
  };
  const PipelineSchedule joined = with_whole_backwards(zb_h1(3, 5));
  CHECK(text(joined, 0) == "F0 F1 F2 B0 F3 B1 F4 I2 W2 I3 W3 I4 W4 ");
  CHECK(text(joined, 1) == "F0 F1 I0 F2 B1 F3 B2 F4 I3 W0 I4 W3 W4 ");
  CHECK(text(joined, 2) == "F0 I0 F1 I1 F2 B2 F3 B3 F4 I4 W0 W1 W4 ");
  CHECK_FALSE(find_fault(joined));
  for (int rank = 0; rank < 3; ++rank)
    CHECK(peak_in_flight(joined, rank) == peak_in_flight(zb_h1(3, 5), rank));
}

TEST_CASE("where whole backwards hide their collectives the search has them") {
  // F 2, I and W 2, B 3. 1F1B takes (m + p - 1)(F + B) = 35. ZB-H1 with its halves joined: the
  // first gradient is at rank 0 after 3 F and 2 I, at 10; then B0 F3 B1 F4 without a gap until 20,
  // and I2 W2 I3 W3 I4 W4 until 32.
  ScheduleSettings settings;
  settings.of_stage.assign(3, {2, 3, 2, 2, 0});
  const PipelineSchedule found = searched("zb-1p", 3, 5, settings);
  CHECK(timing(one_f_one_b(3, 5), settings).makespan == 35);
  CHECK(timing(with_whole_backwards(zb_h1(3, 5)), settings).makespan == 32);
  CHECK(timing(found, settings).makespan <= 32);
  const auto& last = found.actions[2];
  CHECK(std::any_of(last.begin(), last.end(),
                    [](const Action& action) { return action.phase == ActionPhase::kBackward; }));
}

TEST_CASE("ZB-2p of two ranks is the order that one writes by hand") {
  // F = I = W = 1, 3 microbatches. Rank 1 runs F0 at 1 and I0 at 2, so rank 0 has three forwards
  // first; then gradients come every second slot and W fill the others.
  const PipelineSchedule schedule = searched("zb-2p", 2, 3);
  CHECK(to_text(schedule.actions[0]) ==
        std::vector<std::string>{"0F0", "0F1", "0F2", "0I0", "0W0", "0I1", "0W1", "0I2", "0W2"});
  CHECK(to_text(schedule.actions[1]) ==
        std::vector<std::string>{"1F0", "1I0", "1F1", "1I1", "1F2", "1I2", "1W0", "1W1", "1W2"});
}

TEST_CASE("settings of another schedule are refused") {
  const auto reason = [](const std::string& name, const ScheduleSettings& settings) {
    const auto made = schedule_by_name(name, 4, 1, 8, false, settings);
    const auto* infeasible = std::get_if<Infeasible>(&made);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  ScheduleSettings settings;
  settings.memory_limit = 4;
  CHECK(reason("zb-1p", settings) == "none");
  CHECK(reason("zb-h1", settings) == "memory_limit is for zb-1p and zb-2p, not for zb-h1");
  settings = {};
  settings.active_microbatches = 4;
  CHECK(reason("1f1b", settings) == "active_microbatches is for opportunistic, not for 1f1b");
  settings = {};
  settings.microbatch_group = 4;
  CHECK(reason("gpipe", settings) == "microbatch_group is for interleaved, not for gpipe");
}

}  // namespace trainyard::automatic_zero_bubble_test
