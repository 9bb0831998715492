// Durations of a step's actions, as a search for schedules takes them.
#include "engine/exec/times/action_times.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/simulated.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::action_times_test {

namespace {

/// The first segment of the stage and phase.
SegmentId segment_of(const Program& program, int stage, Phase phase) {
  for (const SegmentId i : program.segments.keys()) {
    if (program.segments[i].stage == stage && program.segments[i].phase == phase) return i;
  }
  return kNoIndex;
}

SegmentId segment_named(const Program& program, const std::string& name) {
  for (const SegmentId i : program.segments.keys())
    if (program.segments[i].name == name) return i;
  return kNoIndex;
}

/// Two stages of two layers.
Program two_stages(const std::string& rest) {
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: 4, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {data: 1, pipeline: 2}\ntraining: {global_batch: 4, microbatch: 1}\n" +
      rest));
}

/// Two stages on nodes whose NICs do not reach the devices' memory, so that everything goes by the
/// host. One microbatch of 4 tokens x 8 wide, fp32: 128 bytes forward and 128 back.
Program two_nodes(const std::string& rest) {
  return compiled_program(prepare_text(
      "model: {family: gpt, layers: 2, hidden: 8, heads: 2, vocab: 16, seq_len: 4, "
      "tied_embeddings: false}\n"
      "cluster: {device: a100-sxm-80g, host: {memory: 100 GB/s}, devices: 2, devices_per_node: 1, "
      "inter: {kind: ethernet, bandwidth: 5 GB/s}}\n"
      "parallel: {pipeline: 2, d2d_buffer: 1 KiB}\n"
      "training: {global_batch: 1, microbatch: 1, precision: fp32}\n" +
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
  REQUIRE(forward != kNoIndex);
  REQUIRE(backward != kNoIndex);
  REQUIRE(send != kNoIndex);
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
  REQUIRE(backward != kNoIndex);
  REQUIRE(receive != kNoIndex);
  // Computes from 1 to 3, has the gradient at 10, computes again from 10 to 14 with a gap of 1 that
  // is its own: 2 + 4. Microbatch 1 has it before it begins: 20 to 25.
  const std::vector<TraceRow> rows = {row(backward, 0, 0, 1, 3),   row(receive, 0, 0, 8, 10),
                                      row(backward, 0, 1, 10, 12), row(backward, 0, 2, 13, 14),
                                      row(receive, 1, 0, 15, 16),  row(backward, 1, 0, 20, 25)};
  ActionTimes times(2);
  times.add(program, rows);
  CHECK(times.of_stage[0].at(Phase::kBackward) == std::vector<Seconds>{6, 5});
}

TEST_CASE("a backward that ran in one form takes as long in the other") {
  ActionTimes times(3);
  times.of_stage[0] = {{Phase::kForward, {1}}, {Phase::kBackward, {5, 7}}};
  times.of_stage[1] = {
      {Phase::kForward, {1}}, {Phase::kBackwardInput, {2}}, {Phase::kBackwardWeight, {1}}};
  times.of_stage[2] = {
      {Phase::kBackward, {5}}, {Phase::kBackwardInput, {4}}, {Phase::kBackwardWeight, {3}}};
  const ScheduleSettings mean = durations_of(times, mean_time);
  // Whole only: (5 + 7)/2, half of it each.
  CHECK(mean.of_stage[0].backward == 6);
  CHECK(mean.of_stage[0].input == 3);
  CHECK(mean.of_stage[0].weight == 3);
  // In halves only: 2 + 1.
  CHECK(mean.of_stage[1].backward == 3);
  CHECK(mean.of_stage[1].input == 2);
  CHECK(mean.of_stage[1].weight == 1);
  // Both: each as it ran.
  CHECK(mean.of_stage[2].backward == 5);
  CHECK(mean.of_stage[2].input == 4);
  CHECK(mean.of_stage[2].weight == 3);
}

TEST_CASE("after a step of whole backwards halves are no cheaper than them") {
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nschedule: 1f1b\n"
      "parallel: {data: 1, pipeline: 4}\ntraining: {global_batch: 8, microbatch: 1}\n");
  const ActionTimes times = simulated_actions(prepared);
  for (const ActionDurations& stage : durations_of(times, mean_time).of_stage) {
    CHECK(stage.backward > 0);
    CHECK(stage.input == stage.weight);
    CHECK(stage.input + stage.weight == stage.backward);
  }
}

TEST_CASE("a host-staged transfer takes its copies and its send") {
  const Program program = two_nodes("");
  // Copies: 5 s and 2 bytes/s. Between nodes: 10 s and 1 byte/s. Kernels take no time.
  Cluster cluster = slow_links(2);
  cluster.devices_per_node = 1;
  cluster.num_nodes = 2;
  cluster.inter.bandwidth = 1;
  cluster.host.memory = 4;
  Costs costs = zero_costs(program, cluster);
  costs.host_link.bandwidth = 2;
  costs.host_link.latency = 5;
  RunOptions options;
  options.record_rows = true;
  const Trace trace = run(program, costs, options);
  ActionTimes times(2);
  for (const RankTrace& rank : trace.ranks) times.add(program, rank.rows);
  // 5 + 128/2 s to the host, 10 + 128/1 s to the other one, 5 + 128/2 s to the device.
  CHECK(durations_of(times, mean_time).transfer == Approx(69 + 138 + 69).epsilon(1e-9));
  // The other stage begins so much behind the end of the first.
  const SegmentId first = segment_of(program, 0, Phase::kForward),
                  second = segment_of(program, 1, Phase::kForward);
  Seconds left = 0, arrived = std::numeric_limits<double>::infinity();
  for (const RankTrace& rank : trace.ranks) {
    for (const TraceRow& one : rank.rows) {
      if (one.segment == first) left = std::max(left, one.end);
      if (one.segment == second) arrived = std::min(arrived, one.start);
    }
  }
  CHECK(arrived - left == Approx(276).epsilon(1e-9));
}

TEST_CASE("waits between the copies and the send of a transfer are no part of it") {
  const Program program = two_nodes("");
  const SegmentId send = segment_named(program, "0SEND_F.host"),
                  receive = segment_named(program, "1RECV_F.host");
  REQUIRE(send != kNoIndex);
  REQUIRE(receive != kNoIndex);
  // To the host from 1 to 3, to the other one from 8 to 12, to the device from 20 to 21: 2 + 4 + 1,
  // on two ranks.
  ActionTimes times(2), receiver(2);
  times.add(program, std::vector<TraceRow>{row(send, 0, 0, 1, 3), row(send, 0, 1, 8, 12)});
  CHECK(durations_of(times, mean_time).transfer == 0);  // half of the way
  receiver.add(program,
               std::vector<TraceRow>{row(receive, 0, 0, 8, 12), row(receive, 0, 1, 20, 21)});
  times.add(receiver);
  CHECK(durations_of(times, mean_time).transfer == 7);
  // Beside transfers from device to device the shortest counts.
  times.transfers = {5, 9};
  CHECK(durations_of(times, mean_time).transfer == 5);
}

TEST_CASE("what an action waits for a host-staged transfer is no part of it") {
  // Stage 0 recomputes first, and its gradient is copied from the host.
  const Program program = two_nodes("recompute: full\n");
  const SegmentId backward = segment_of(program, 0, Phase::kBackward);
  const SegmentId receive = segment_named(program, "0RECV_B.host");
  REQUIRE(backward != kNoIndex);
  REQUIRE(receive != kNoIndex);
  // Computes from 1 to 3, has the gradient on the host at 8, on the device at 10, computes again
  // from 10 to 14: 2 + 4.
  const std::vector<TraceRow> rows = {row(backward, 0, 0, 1, 3), row(receive, 0, 0, 6, 8),
                                      row(receive, 0, 1, 8, 10), row(backward, 0, 1, 10, 14)};
  ActionTimes times(2);
  times.add(program, rows);
  CHECK(times.of_stage[0].at(Phase::kBackward) == std::vector<Seconds>{6});
}

TEST_CASE("orders are searched for the same durations whether the stages wait or not") {
  // Equal stages that recompute: every backward takes what the last stage's takes, which waits for
  // nobody, to the head.
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nrecompute: full\n"
      "parallel: {data: 1, pipeline: 4}\ntraining: {global_batch: 8, microbatch: 1}\n");
  const ActionTimes times = simulated_actions(prepared);
  const ScheduleSettings mean = durations_of(times, mean_time);
  CHECK(mean.of_stage[1].backward == Approx(mean.of_stage[2].backward).epsilon(0.02));
  // Stage 0's has the embedding's gradient besides, a few kernels of some thirty.
  CHECK(mean.of_stage[0].backward == Approx(mean.of_stage[1].backward).epsilon(0.25));
}

}  // namespace trainyard::action_times_test
