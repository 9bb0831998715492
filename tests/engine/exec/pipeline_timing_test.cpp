// Schedules through the whole path: a small study is compiled, its stages are given round durations
// by hand, communication is free, and the executor's step has to be the schedule's closed form.
#include <catch2/catch.hpp>

#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::pipeline_timing_test {

namespace {

/// p pipeline ranks of v stages, one layer each; m microbatches.
Program pipeline(const std::string& schedule, int p, int v, int m) {
  return compiled_program(prepare_text("model: {family: gpt, layers: " + std::to_string(p * v) +
                                       ", hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
                                       "cluster: {preset: dgx-a100-80g, nodes: 2}\n"
                                       "parallel: {tensor: 1, data: 1, pipeline: " +
                                       std::to_string(p) +
                                       ", virtual_stages: " + std::to_string(v) +
                                       "}\ntraining: {global_batch: " + std::to_string(m) +
                                       ", microbatch: 1}\nschedule: " + schedule + "\n"));
}

/// Every F call takes `forward` seconds and every B call `backward`; all else takes none.
Costs flat_costs(const Program& program, Seconds forward, Seconds backward) {
  Costs costs = zero_costs(program, free_links(program.mesh.num_ranks()));
  for (const SegmentId s : program.segments.keys()) {
    const Segment& segment = program.segments[s];
    if (segment.phase != Phase::kForward && segment.phase != Phase::kBackward) continue;
    CHECK(segment.ops[0].stream == StreamId::kMain);
    costs.ops[1.0][s][0].kernel = segment.phase == Phase::kForward ? forward : backward;
  }
  return costs;
}

Seconds makespan(const Program& program, Seconds forward, Seconds backward) {
  RunOptions options;
  options.compute_only = true;
  return run(program, flat_costs(program, forward, backward), options).period;
}

}  // namespace

TEST_CASE("GPipe and 1F1B take (m + p - 1)(F + B) through the whole path") {
  const std::string schedule = GENERATE("gpipe", "1f1b");
  const int p = GENERATE(1, 2, 3, 4, 8);
  const int m = GENERATE(1, 2, 5, 8, 16);
  CAPTURE(schedule, p, m);
  CHECK(makespan(pipeline(schedule, p, 1, m), 1, 2) == Approx((m + p - 1) * 3).epsilon(1e-9));
  CHECK(makespan(pipeline(schedule, p, 1, m), 2, 1) == Approx((m + p - 1) * 3).epsilon(1e-9));
}

TEST_CASE("interleaving takes m v (f + b) + (p - 1)(f + b) through the whole path") {
  const int p = GENERATE(2, 4);
  const int v = GENERATE(2, 3, 4);
  const int rounds = GENERATE(1, 2, 4);
  const int m = p * rounds;
  CAPTURE(p, v, m);
  CHECK(makespan(pipeline("interleaved", p, v, m), 1, 2) ==
        Approx((m * v + p - 1) * 3).epsilon(1e-9));
}

TEST_CASE("whole steps without communication idle for (p - 1)/(m + p - 1) of their time") {
  // Steps follow one another without overlap: the next one starts on stage 0, which ends last.
  const std::string schedule = GENERATE("gpipe", "1f1b");
  const int p = GENERATE(2, 4);
  const int m = GENERATE(2, 8, 32);
  CAPTURE(schedule, p, m);
  const Program program = pipeline(schedule, p, 1, m);
  const Trace trace = run(program, flat_costs(program, 1, 2));
  CHECK(trace.steady);
  CHECK(trace.period == Approx((m + p - 1) * 3).epsilon(1e-9));
  Seconds bubble = 0;
  for (const RankTrace& rank : trace.ranks) {
    CHECK(rank.time.compute == Approx(3 * m).epsilon(1e-9));
    CHECK(rank.time.exposed_total() == 0);
    CHECK(rank.time.optimizer == 0);
    bubble += rank.time.bubble * static_cast<double>(rank.multiplicity);
  }
  CHECK(bubble / (p * trace.period) == Approx((p - 1.0) / (m + p - 1)).epsilon(1e-9));
}

TEST_CASE("a slow stage sets the pace of 1F1B") {
  // The bottleneck s is busy for m (F_s + B_s) without a pause: its warm-up forwards cover the way
  // to the last stage and back. Before it the first microbatch passes stages 0..s-1 forward, after
  // it the last one passes them backward.
  const int p = 4;
  const int slow = GENERATE(0, 1, 2, 3);
  const int m = 12;
  CAPTURE(slow);
  const Program program = pipeline("1f1b", p, 1, m);
  Costs costs = flat_costs(program, 1, 2);
  for (const SegmentId s : program.segments.keys()) {
    const Segment& segment = program.segments[s];
    if (segment.stage == slow && segment.phase == Phase::kForward) costs.ops[1.0][s][0].kernel = 3;
    if (segment.stage == slow && segment.phase == Phase::kBackward) costs.ops[1.0][s][0].kernel = 6;
  }
  RunOptions options;
  options.compute_only = true;
  const Seconds expected = slow * (1 + 2) + m * (3 + 6);
  CHECK(run(program, costs, options).period == Approx(expected).epsilon(1e-9));
}

}  // namespace trainyard::pipeline_timing_test
