// Laws of schedules over s = 2..12 stages and m = max(4, s)..3s microbatches, F = I = W = R = 1, B
// = 2: activations at the peak, and idle time per rank. Makespans with recompute are in
// early_recompute_test, those of split backwards in zero_bubble_test and
// automatic_zero_bubble_test.
#include <algorithm>
#include <functional>

#include "engine/schedule/early_recompute.h"
#include "tests/support/golden.h"

namespace trainyard::schedule_laws_test {

namespace {

void over_the_sweep(const std::function<void(int s, int m)>& check_one) {
  for (int s = 2; s <= 12; ++s) {
    for (int m = std::max(4, s); m <= 3 * s; ++m) check_one(s, m);
  }
}

ScheduleTiming timing(const PipelineSchedule& schedule) {
  const auto timed = time_schedule(schedule, ActionDurations{});
  if (const auto* reason = std::get_if<Infeasible>(&timed)) FAIL(reason->reason);
  return std::get<ScheduleTiming>(timed);
}

}  // namespace

TEST_CASE("1F1B and the schedules with its order hold s - i microbatches on stage i") {
  over_the_sweep([](int s, int m) {
    for (const char* name : {"1f1b", "pre-recompute-1f1b", "last-no-recompute-1f1b", "scp"}) {
      CAPTURE(name, s, m);
      const auto schedule = schedule_named(name, s, 1, m);
      for (int i = 0; i < s; ++i) {
        // scp's last stage but one runs three forwards before its first backward.
        const bool shifted = std::string(name) == "scp" && i == s - 2;
        CHECK(peak_in_flight(schedule, i) == (shifted ? 3 : s - i));
        CHECK(peak_in_flight(schedule, i) <= pipe_buffers(s, m)[static_cast<std::size_t>(i)]);
      }
    }
  });
}

TEST_CASE("1F1B idles (s-1)(F + B) on every rank, of it i F before the first forward of stage i") {
  over_the_sweep([](int s, int m) {
    CAPTURE(s, m);
    const ScheduleTiming timed = timing(one_f_one_b(s, m));
    CHECK(timed.makespan == 3 * (m + s - 1));
    for (int i = 0; i < s; ++i) {
      const auto rank = static_cast<std::size_t>(i);
      CHECK(timed.idle[rank] == 3 * (s - 1));
      // The last backward of stage i ends i B before the step does, so i (F + B) are outside of its
      // span.
      CHECK(timed.span_idle[rank] == 3 * (s - 1 - i));
    }
  });
}

TEST_CASE("what a rank idles is what recompute, forwards and backwards leave of the step") {
  over_the_sweep([](int s, int m) {
    // Stages that recompute work 4 for each microbatch, the last of scp and last-no-recompute
    // works 3.
    CAPTURE(s, m);
    const ScheduleTiming pre = timing(schedule_named("pre-recompute-1f1b", s, 1, m));
    CHECK(pre.idle == std::vector<double>(static_cast<std::size_t>(s), 3 * (s - 1)));
    std::vector<double> expected(static_cast<std::size_t>(s), 3 * (s - 2));
    expected.back() = 3 * (s - 2) + m;
    CHECK(timing(schedule_named("scp", s, 1, m)).idle == expected);
    for (double& idle : expected) ++idle;
    CHECK(timing(schedule_named("last-no-recompute-1f1b", s, 1, m)).idle == expected);
  });
}

}  // namespace trainyard::schedule_laws_test
