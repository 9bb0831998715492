// Durations of a step's actions, as a search for schedules takes them.
#include "engine/exec/action_times.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/analytic_executor.h"
#include "tests/support/studies.h"

namespace trainyard {

namespace {

/// The first segment of the stage and phase.
SegmentId segment_of(const Program& program, int stage, Phase phase) {
  for (std::size_t i = 0; i < program.segments.size(); ++i) {
    if (program.segments[i].stage == stage && program.segments[i].phase == phase)
      return static_cast<SegmentId>(i);
  }
  return -1;
}

SegmentId segment_named(const Program& program, const std::string& name) {
  for (std::size_t i = 0; i < program.segments.size(); ++i)
    if (program.segments[i].name == name) return static_cast<SegmentId>(i);
  return -1;
}

/// Two stages of two layers.
Program two_stages(const std::string& rest) {
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: 4, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {data: 1, pipeline: 2}\ntraining: {global_batch: 4, microbatch: 1}\n" +
      rest));
}

TraceRow row(SegmentId segment, Microbatch mb, std::uint32_t op, Seconds start, Seconds end) {
  TraceRow out;
  out.segment = segment;
  out.mb = mb;
  out.op = op;
  out.start = start;
  out.end = end;
  return out;
}

}  // namespace

TEST_CASE(
    "an action takes from its first kernel to its last, and a transfer what the shortest takes") {
  const Program program = two_stages("");
  const SegmentId forward = segment_of(program, 0, Phase::kForward);
  const SegmentId backward = segment_of(program, 1, Phase::kBackward);
  const SegmentId send = segment_named(program, "0SEND_F");
  REQUIRE(forward >= 0);
  REQUIRE(backward >= 0);
  REQUIRE(send >= 0);
  // F of microbatch 0: 1 to 4 although idle within; of 1: 10 to 12. B: 5 to 9. Sends of 2 and of
  // 0.5.
  const std::vector<TraceRow> rows = {row(forward, 0, 0, 1, 2),   row(forward, 0, 1, 3, 4),
                                      row(forward, 1, 0, 10, 12), row(backward, 0, 0, 5, 9),
                                      row(send, 0, 0, 4, 6),      row(send, 1, 0, 12, 12.5)};
  ActionTimes times(2);
  times.add(program, rows);
  CHECK(times.of_stage[0].at(Phase::kForward) == std::vector<Seconds>{3, 2});
  const ScheduleSettings mean = durations_of(times, mean_time);
  REQUIRE(mean.of_stage.size() == 2);
  CHECK(mean.of_stage[0].forward == 2.5);
  CHECK(mean.of_stage[1].backward == 4);
  CHECK(mean.of_stage[1].forward == 0);  // never ran
  CHECK(mean.transfer == 0.5);
  // Another rank of the same stage adds its own.
  ActionTimes more(2);
  more.add(program, std::vector<TraceRow>{row(forward, 0, 0, 0, 7)});
  times.add(more);
  CHECK(durations_of(times, mean_time).of_stage[0].forward == 4);
  CHECK(durations_of(times, [](const std::vector<Seconds>& all) { return all.back(); })
            .of_stage[0]
            .forward == 7);
}

TEST_CASE("what an action waits for its transfer is no part of it") {
  // Stage 0 recomputes first, and its gradient comes from stage 1.
  const Program program = two_stages("recompute: full\n");
  const SegmentId backward = segment_of(program, 0, Phase::kBackward);
  const SegmentId receive = segment_named(program, "0RECV_B");
  REQUIRE(backward >= 0);
  REQUIRE(receive >= 0);
  // Computes from 1 to 3, has the gradient at 10, computes again from 10 to 14 with a gap of 1 that
  // is its own: 2 + 4. Microbatch 1 has it before it begins: 20 to 25.
  const std::vector<TraceRow> rows = {row(backward, 0, 0, 1, 3),   row(receive, 0, 0, 8, 10),
                                      row(backward, 0, 1, 10, 12), row(backward, 0, 2, 13, 14),
                                      row(receive, 1, 0, 15, 16),  row(backward, 1, 0, 20, 25)};
  ActionTimes times(2);
  times.add(program, rows);
  CHECK(times.of_stage[0].at(Phase::kBackward) == std::vector<Seconds>{6, 5});
}

TEST_CASE("orders are searched for the same durations whether the stages wait or not") {
  // Equal stages that recompute: every backward takes what the last stage's takes, which waits for
  // nobody, to the head.
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nrecompute: full\n"
      "parallel: {data: 1, pipeline: 4}\ntraining: {global_batch: 8, microbatch: 1}\n");
  const Program program = compiled_program(prepared);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  RunOptions options;
  options.record_rows = true;
  ActionTimes times(4);
  for (const RankTrace& rank :
       AnalyticExecutor().run(std::vector<Job>{Job{&program, 0}}, costs, options).ranks)
    times.add(program, rank.rows);
  const ScheduleSettings mean = durations_of(times, mean_time);
  CHECK(mean.of_stage[1].backward == Approx(mean.of_stage[2].backward).epsilon(0.02));
  // Stage 0's has the embedding's gradient besides, a few kernels of some thirty.
  CHECK(mean.of_stage[0].backward == Approx(mean.of_stage[1].backward).epsilon(0.25));
}

}  // namespace trainyard
