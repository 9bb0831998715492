// Schedules with split backwards, V-shaped stages and early recompute through the whole path: a
// small study is compiled, its segments are given round durations by hand, communication is free,
// and one step takes as long as the schedule's published law, or as the schedule as a value.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/schedule/schedule_timing.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::split_timing_test {

namespace {

struct Compiled {
  Program program;
  PipelineSchedule schedule;
};

/// p pipeline ranks of v stages, one layer each; m microbatches.
Compiled pipeline(const std::string& schedule, int p, int v, int m,
                  const std::string& recompute = "none") {
  const Prepared prepared =
      prepare_text("model: {family: gpt, layers: " + std::to_string(p * v) +
                   ", hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
                   "cluster: {preset: dgx-a100-80g, nodes: 2}\n"
                   "parallel: {tensor: 1, data: 1, pipeline: " +
                   std::to_string(p) + ", virtual_stages: " + std::to_string(v) +
                   "}\ntraining: {global_batch: " + std::to_string(m) +
                   ", microbatch: 1}\nschedule: " + schedule + "\nrecompute: " + recompute + "\n");
  PassLog log;
  auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
  REQUIRE(std::holds_alternative<Program>(compiled));
  return {std::move(std::get<Program>(compiled)), log.schedule};
}

/// Time of one call of the segment. A backward that recomputes inside, writing values with a
/// mark ', takes that time besides; a pair takes as long as both.
Seconds duration(const Program& program, const Segment& segment, const ActionDurations& of) {
  const bool recomputes =
      std::any_of(segment.ops.begin(), segment.ops.end(), [&](const ProgramOp& op) {
        return !op.writes.empty() && program.values[op.writes[0].value].name.ends_with("'");
      });
  const Seconds inside = recomputes ? of.recompute : 0;
  switch (segment.phase) {
    case Phase::kForward: return of.forward;
    case Phase::kBackward: return of.backward + inside + (segment.slots == 2 ? of.forward : 0);
    case Phase::kBackwardInput: return of.input + inside;
    case Phase::kBackwardWeight: return of.weight;
    case Phase::kRecompute: return of.recompute;
    default: return 0;
  }
}

Seconds makespan(const Program& program, const ActionDurations& durations) {
  Costs costs = zero_costs(program, free_links(program.mesh.num_ranks()));
  for (const SegmentId s : program.segments.keys()) {
    const Seconds time = duration(program, program.segments[s], durations);
    if (time == 0) continue;
    CHECK(program.segments[s].ops[0].stream == StreamId::kMain);
    costs.ops[1.0][s][0].kernel = time;
  }
  RunOptions options;
  options.compute_only = true;
  return run(program, costs, options).period;
}

/// The schedule as a value.
Seconds makespan(const PipelineSchedule& schedule, const ActionDurations& durations) {
  const auto timed = time_schedule(schedule, durations);
  REQUIRE(std::holds_alternative<ScheduleTiming>(timed));
  return std::get<ScheduleTiming>(timed).makespan;
}

}  // namespace

TEST_CASE("ZB-H1 takes m (F + I + W) + (p - 1)(F + I - W) through the whole path") {
  const int p = GENERATE(1, 2, 4, 8);
  const int m = p * GENERATE(1, 3);
  const auto d = GENERATE(ActionDurations{1, 2, 1, 1}, ActionDurations{3, 3, 2, 1});
  CAPTURE(p, m);
  CHECK(makespan(pipeline("zb-h1", p, 1, m).program, d) ==
        Approx(m * (d.forward + d.input + d.weight) + (p - 1) * (d.forward + d.input - d.weight))
            .epsilon(1e-9));
}

TEST_CASE("schedules of several stages take as long as their values through the whole path") {
  const std::string schedule = GENERATE("interleaved-zb1p", "zb-v", "dualpipe-v");
  const int p = GENERATE(2, 4);
  const int m = p * GENERATE(2, 3);
  const auto d = GENERATE(ActionDurations{1, 2, 1, 1}, ActionDurations{3, 3, 2, 1});
  CAPTURE(schedule, p, m);
  const Compiled compiled = pipeline(schedule, p, 2, m);
  CHECK(makespan(compiled.program, d) == Approx(makespan(compiled.schedule, d)).epsilon(1e-9));
}

TEST_CASE("Merak's early recompute takes what its paper says through the whole path") {
  // Lai et al. (arXiv:2206.04959), section 5.2, with F = R = 1 and B = 2. The same formulas, of
  // schedules as values and over s = 2..12, are in tests/engine/schedule/early_recompute_test.cpp.
  const int s = GENERATE(2, 3, 4, 6);
  const int m = std::max(4, s) * GENERATE(1, 3);
  const ActionDurations unit{1, 2, 1, 1, 1};
  CAPTURE(s, m);
  const auto step = [&](const std::string& schedule) {
    return makespan(pipeline(schedule, s, 1, m, "full").program, unit);
  };
  CHECK(step("pre-recompute") == Approx(4 * m + 3 * (s - 1)).epsilon(1e-9));
  CHECK(step("last-no-recompute") == Approx(4 * m + 3 * (s - 2) + 1).epsilon(1e-9));
  CHECK(step("scp") == Approx(4 * m + 3 * (s - 2)).epsilon(1e-9));
}

TEST_CASE("ZB-H1's weight gradients fill what 1F1B idles") {
  // Whole steps, F = I = W = 1: 1F1B idles (p-1)(F + I + W) = 3 (p-1) of 3 (m + p - 1), ZB-H1
  // (p-1)(F + I - W) = p-1 of 3 m + p - 1.
  const int p = GENERATE(2, 4);
  const int m = 8;
  const auto bubble = [&](const std::string& schedule) {
    const Program program = pipeline(schedule, p, 1, m).program;
    return makespan(program, {1, 2, 1, 1}) - 3 * m;
  };
  CHECK(bubble("1f1b") == Approx(3 * (p - 1)).epsilon(1e-9));
  CHECK(bubble("zb-h1") == Approx(p - 1).epsilon(1e-9));
}

}  // namespace trainyard::split_timing_test
