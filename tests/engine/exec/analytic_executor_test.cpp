// The analytic executor, worked by hand: small Programs with kernels and links of whole seconds,
// the expected times derived beside them. slow_links(): inside a node 1 s + 1 s per byte, so a ring
// all-reduce of S bytes among n ranks takes 2(n-1) + 2(n-1)/n S. What waits for what is
// stream_order_test.cpp's.
#include "engine/exec/analytic_executor.h"

#include <catch2/catch.hpp>

#include "engine/cost/transfer_time.h"
#include "engine/passes/plan_mesh.h"
#include "tests/support/hand_timing.h"

namespace trainyard::analytic_executor_test {

namespace {

/// One collective per step, over `n` ranks along tp.
Program collective(const std::string& kind, int n, int bytes_in, int bytes_out) {
  return verified(mesh_text(1, 1, n, 1) + "group tp[tp]\nvalue x uint8[" +
                  std::to_string(bytes_in) + "] step activation\nvalue y uint8[" +
                  std::to_string(bytes_out) +
                  "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n  tp " + kind +
                  ":tp x -> y\n  main free x y\nclass pp:0\n  0STEP\nplacement pp:1 dp:1 tp:1\n");
}

Seconds collective_period(const std::string& kind, int n, int bytes_in, int bytes_out,
                          const Cluster& cluster) {
  const Program program = collective(kind, n, bytes_in, bytes_out);
  const Trace trace = run(program, zero_costs(program, cluster));
  CHECK(trace.steady);
  CHECK(trace.ranks[0].time.exposed.at(kind + ":tp") == exactly(trace.period));
  return trace.period;
}

}  // namespace

TEST_CASE("a ring inside a node takes its closed form") {
  const int n = GENERATE(2, 3, 4, 8);
  const int chunk = GENERATE(1, 5);
  const int bytes = n * chunk;  // S
  Cluster cluster = free_links(n);
  cluster.intra.bandwidth = 4;           // B
  cluster.intra.collective.latency = 3;  // alpha
  CAPTURE(n, bytes);
  // all_reduce: 2(n-1) alpha + 2(n-1)/n S/B; the others go round once.
  const double once = (n - 1) * 3 + (n - 1.0) / n * bytes / 4.0;
  CHECK(collective_period("all_reduce", n, bytes, bytes, cluster) == exactly(2 * once));
  CHECK(collective_period("all_gather", n, chunk, bytes, cluster) == exactly(once));
  CHECK(collective_period("reduce_scatter", n, bytes, chunk, cluster) == exactly(once));
}

TEST_CASE("NVLink bridges join devices 2k and 2k + 1, other pairs meet over PCIe") {
  // Two ranks of four on a node: 2 (n - 1)/n S = 8 bytes at 1 byte/s within a pair, at 1/4 beyond.
  Cluster cluster = free_links(4);
  cluster.intra.kind = "nvlink-bridge";
  cluster.intra.bandwidth = 1;
  cluster.intra.collective.by_ranks = {{2, {0, 1, {}}}, {3, {0, 0.25, {}}}};
  const auto period_along = [&](const std::string& axis) {
    const Program program = verified(
        mesh_text(1, 2, 2, 1) + "group g[" + axis +
        "]\nvalue x uint8[8] step activation\nvalue y uint8[8] step activation\n"
        "segment 0STEP() stage:0 C\n  main zero -> x\n  tp all_reduce:g x -> y\n  main free x y\n"
        "class pp:0\n  0STEP\nplacement pp:1 dp:2 tp:1\n");
    return run(program, zero_costs(program, cluster)).period;
  };
  CHECK(period_along("tp") == exactly(8));
  CHECK(period_along("dp") == exactly(32));
  // Sends go from device 0 to 1, or to 2, whose pair's rate is that of rings between pairs.
  cluster.intra.point_to_point.by_ranks = {{2, {0, 2, {}}}};
  SourceLog log;
  CHECK(transfer_time(8, Distance::kSamePair, cluster, log) == exactly(4));
  CHECK(transfer_time(8, Distance::kSameNode, cluster, log) == exactly(32));
}

TEST_CASE("a ring with one rank on each node runs at a device's share of the network") {
  const int n = GENERATE(2, 4);
  const int bytes = 8 * n;
  Cluster cluster = free_links(n, 1);
  cluster.inter.bandwidth = 4;
  cluster.inter.collective.latency = 3;
  CHECK(collective_period("all_reduce", n, bytes, bytes, cluster) ==
        exactly(2 * ((n - 1) * 3 + (n - 1.0) / n * bytes / 4.0)));
}

TEST_CASE("a ring over several ranks on each node crosses the network once per node") {
  // 2 nodes of 2: of the n - 1 = 3 hops that a chunk makes, nodes - 1 = 1 is between nodes (10 s)
  // and 2 are inside (1 s each). Both ranks of a node feed the NIC: 2 bytes/s * 2/2; inside 1
  // byte/s is slower. S = 8: 2 (10 + 2) + 2 * 3/4 * 8 / 1.
  CHECK(collective_period("all_reduce", 4, 8, 8, slow_links(4)) == exactly(24 + 12));
}

namespace {

/// Stage 0 makes x (`make` s) and sends it, stage 1 takes it in (`use` s), microbatch by
/// microbatch.
Program sender_and_receiver(const std::string& first, const std::string& second, int slots,
                            int bytes = 3) {
  return verified(mesh_text(2, 1, 1, 3) + "transfer 0 pp+1\ntransfer 1 pp-1\npool in:" +
                  std::to_string(slots) + "\nvalue x uint8[" + std::to_string(bytes) +
                  "] mb activation\nvalue y uint8[" + std::to_string(bytes) +
                  "] mb buffer pool:in\nvalue z uint8[1] local activation\n"
                  "segment 0F(m) stage:0 F\n  main gelu -> x[m]\n"
                  "segment 0SEND(m) stage:0 C\n  fwd send:0 x[m]\n"
                  "segment 0FREE(m) stage:0 C\n  main free x[m]\n"
                  "segment 0OTHER(m) stage:0 F\n  main gelu -> z\n  main free z\n"
                  "segment 1RECV(m) stage:1 C\n  fwd recv:1 -> y[m]\n"
                  "segment 1F(m) stage:1 F\n  main gelu y[m] -> z\n  main free z y[m]\n"
                  "class pp:0\n  " +
                  first + "\nclass pp:1\n  " + second + "\nplacement pp:1 dp:2 tp:2\n");
}

}  // namespace

TEST_CASE("a transfer starts when both ends are ready, over the link between them") {
  const auto program = sender_and_receiver("0F0 0SEND0 0FREE0", "1RECV0 1F0", 1);
  RunOptions one_step;
  one_step.max_steps = 1;
  SECTION("inside a node: 1 s and 3 bytes at 1 byte/s") {
    CHECK(run(program, zero_costs(program, slow_links(2)), one_step).period == exactly(4));
  }
  SECTION("between nodes: 10 s and 3 bytes at one device's share, 1 of 2 bytes/s") {
    Program apart = program;
    apart.mesh.axes[1].size = 2;  // a second replica beside each stage: DPT with pp apart
    apart.placement = make_placement(apart.mesh, "PDT");
    CHECK(run(apart, zero_costs(apart, slow_links(4)), one_step).period == exactly(13));
  }
  SECTION("late sender") {
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "0F", 0).kernel = 5;
    cost_of(costs, program, "1F", 0).kernel = 2;
    const Trace trace = run(program, costs, one_step);
    CHECK(trace.period == exactly(5 + 4 + 2));
    check_time(trace.ranks[0], 5, 0, {{"send:pp", 4}}, 0, 2);
    check_time(trace.ranks[1], 2, 0, {{"recv:pp", 4}}, 0, 5);  // waiting for the sender is bubble
  }
}

TEST_CASE("a receive waits for a slot of its pool") {
  // Transfers take 4, uses take 5, three microbatches, everything sent at once.
  const auto period = [](const std::string& receiver, int slots) {
    const auto program = sender_and_receiver(
        "0F0 0F1 0F2 0SEND0 0SEND1 0SEND2 0FREE0 0FREE1 0FREE2", receiver, slots);
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "1F", 0).kernel = 5;
    RunOptions options;
    options.max_steps = 1;
    return run(program, costs, options).period;
  };
  // One slot: transfer and use take turns, 3 (4 + 5).
  CHECK(period("1RECV0 1F0 1RECV1 1F1 1RECV2 1F2", 1) == exactly(27));
  // Two slots: transfers run beside uses, 4 + 3 * 5.
  CHECK(period("1RECV0 1RECV1 1F0 1RECV2 1F1 1F2", 2) == exactly(19));
}

TEST_CASE("a free waits for the send that reads the storage, and main waits with it") {
  const auto trace = [](const std::string& first) {
    const auto program = sender_and_receiver(first, "1RECV0 1F0", 1);
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "0F", 0).kernel = 1;
    cost_of(costs, program, "0OTHER", 0).kernel = 3;
    RunOptions options;
    options.max_steps = 1;
    return run(program, costs, options);
  };
  // F 0-1, send 1-5. Freed at once: OTHER 5-8, main waits 4 s for the send.
  const Trace early = trace("0F0 0SEND0 0FREE0 0OTHER0");
  CHECK(early.period == exactly(8));
  check_time(early.ranks[0], 4, 0, {{"send:pp", 4}}, 0, 0);
  // Freed one action later: OTHER 1-4, main waits from 4 to 5.
  const Trace late = trace("0F0 0SEND0 0OTHER0 0FREE0");
  CHECK(late.period == exactly(5));
  check_time(late.ranks[0], 4, 0, {{"send:pp", 1}}, 0, 0);
}

namespace {

/// A backward of two kernels and an update on `dp` replicas; the first kernel's gradient (3 bytes)
/// is reduced in the midst of the backward, under the second kernel.
Program overlapped_reduction(int dp) {
  return verified(mesh_text(1, dp, 1, 1) +
                  "group dp[dp]\nvalue w uint8[3] persistent parameter\n"
                  "value g uint8[3] step gradient\nvalue G uint8[3] step gradient in:g+0\n"
                  "value h uint8[3] step gradient\n"
                  "segment 0B(m) stage:0 B\n  main gelu -> g\n  main gelu -> h\n"
                  "segment 0REDUCE() stage:0 C\n  dp all_reduce:dp g -> G\n"
                  "segment 0UPDATE() stage:0 U\n  main adamw G h +> w\n  main free g h\n"
                  "class pp:0\n  0B0{@1:0REDUCE} 0UPDATE\nplacement pp:1 dp:1 tp:1\n");
}

}  // namespace

TEST_CASE("a reduction is exposed by what it outlasts the compute that follows its gradient") {
  // 2 s to the gradient, then the all-reduce of 3 bytes among 2: 2 + 3 = 5 s, beside the second
  // kernel; the update (1 s) waits for both. Period 2 + max(second, 5) + 1.
  const Program program = overlapped_reduction(2);
  const double second = GENERATE(7.0, 5.0, 3.0, 0.0);
  CAPTURE(second);
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0B", 0).kernel = 2;
  cost_of(costs, program, "0B", 1).kernel = second;
  cost_of(costs, program, "0UPDATE", 0).kernel = 1;
  const Trace trace = run(program, costs);
  CHECK(trace.steady);
  CHECK(trace.period == exactly(2 + std::max(second, 5.0) + 1));
  REQUIRE(trace.ranks.size() == 1);
  CHECK(trace.ranks[0].multiplicity == 2);
  const double exposed = std::max(0.0, 5 - second);
  check_time(trace.ranks[0], 2 + second, 1,
             exposed > 0 ? Exposed{{"all_reduce:dp", exposed}} : Exposed{}, 0, 0);
}

TEST_CASE("a collective starts when its slowest member is ready, and ends for all together") {
  // Device 1 computes at half speed: its gradient is there at 4 instead of 2, and its update
  // takes 2. Both reduce from 4 to 9. Fast: gap 2-4 bubble, 4-9 exposed; update 9-10. The next step
  // starts at once on the fast rank (10), at 11 on the slow one, whose gradient is there at 15:
  // period 11.
  const Program program = overlapped_reduction(2);
  Costs costs = zero_costs(program, slow_links(2));
  costs.cluster.speed = {{1, 0.5}};
  cost_of(costs, program, "0B", 0).kernel = 2;
  cost_of(costs, program, "0UPDATE", 0).kernel = 1;
  costs.ops[0.5] = costs.ops[1.0];
  for (auto& segment : costs.ops[0.5]) {
    for (OpCost& cost : segment) cost.kernel *= 2;
  }
  const Trace trace = run(program, costs);
  CHECK(trace.steady);
  CHECK(trace.period == exactly(11));
  REQUIRE(trace.ranks.size() == 2);
  check_time(trace.ranks[0], 2, 1, {{"all_reduce:dp", 5}}, 0, 3);
  check_time(trace.ranks[1], 4, 2, {{"all_reduce:dp", 5}}, 0, 0);
}

TEST_CASE("a trace's rows say when each op was issued, ready, started and ended") {
  const auto program = sender_and_receiver("0F0 0SEND0 0FREE0", "1RECV0 1F0", 1);
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0F", 0) = {5, 1, 0, 0};
  cost_of(costs, program, "1RECV", 0).launch = 2;
  RunOptions options;
  options.max_steps = 1;
  options.record_rows = true;
  const Trace trace = run(program, costs, options);
  REQUIRE(trace.ranks[1].rows.size() == 2);
  const TraceRow& receive = trace.ranks[1].rows[0];
  CHECK(program.segments[receive.segment].name == "1RECV");
  CHECK(receive.mb == 0);
  CHECK(receive.issued == exactly(2));
  CHECK(receive.ready == exactly(2));
  CHECK(receive.start == exactly(6));  // when the sender is ready
  CHECK(receive.end == exactly(10));
  CHECK(trace.num_events == 4);  // frees take no time and are not counted
}

}  // namespace trainyard::analytic_executor_test
