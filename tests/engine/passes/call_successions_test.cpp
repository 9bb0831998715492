// Which calls follow one another on a rank.
#include "engine/passes/call_successions.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace trainyard::call_successions_test {

namespace {

std::string text(const CallKind& kind) {
  Action action{kind.stage, kind.phase, 0};
  std::string name = to_string(action);
  name = name.substr(0, name.size() - 1);  // without the microbatch
  return name + (kind.behind_recompute ? "r" : "") +
         (kind.size > 0 ? "@" + std::to_string(kind.size) : "");
}

/// "0F 0B=": a backward behind the forward of its own microbatch.
std::vector<std::string> successions(const PipelineSchedule& schedule,
                                     const Numbered<std::size_t>& size_of = {}) {
  std::vector<std::string> out;
  for (const CallSuccession& one : call_successions(schedule, size_of)) {
    out.push_back((one.call ? text(*one.call) : "step") + " " + text(one.next) +
                  (one.same_microbatch ? "=" : ""));
  }
  std::sort(out.begin(), out.end());
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("schedules say what follows what") {
  // One rank: F0 B0 F1 B1.
  CHECK(successions(one_f_one_b(1, 2)) == Texts{"0B 0F", "0F 0B=", "step 0F"});
  // F0 F1 B0 B1 on each rank.
  CHECK(successions(gpipe(2, 2)) ==
        Texts{"0B 0B", "0F 0B", "0F 0F", "1B 1B", "1F 1B", "1F 1F", "step 0F", "step 1F"});
  CHECK(successions(one_f_one_b(2, 3)) ==
        Texts{"0B 0B", "0B 0F", "0F 0B", "0F 0F", "1B 1F", "1F 1B=", "step 0F", "step 1F"});
  // Microbatches of two sizes, the second and third of the smaller.
  CHECK(successions(one_f_one_b(1, 3), {0, 1, 1}) ==
        Texts{"0B 0F@1", "0B@1 0F@1", "0F 0B=", "0F@1 0B@1=", "step 0F"});
}

TEST_CASE("an R may be no call at all") {
  PipelineSchedule schedule;
  schedule.num_stages = 1;
  schedule.num_microbatches = 2;
  const auto F = ActionPhase::kForward, B = ActionPhase::kBackward,
             early = ActionPhase::kEarlyRecompute;
  schedule.actions = {{{0, F, 0}, {0, F, 1}, {0, early, 0}, {0, B, 0}, {0, B, 1}}};
  const std::string R = text({0, early});
  const Texts found = successions(schedule);
  // Behind the second forward comes the backward of the first where R does nothing.
  CHECK(std::count(found.begin(), found.end(), "0F 0Br") == 1);
  CHECK(std::count(found.begin(), found.end(), "0F " + R + "r") == 1);
  CHECK(std::count(found.begin(), found.end(), R + "r 0Br=") == 1);
  CHECK(std::count(found.begin(), found.end(), "0Br 0B") == 1);
  CHECK(found.size() == 6);
}

}  // namespace trainyard::call_successions_test
