// The analytic executor, worked by hand: small Programs with kernels and links of whole seconds,
// the expected times derived beside them. slow_links(): inside a node 1 s + 1 s per byte, so a ring
// all-reduce of S bytes among n ranks takes 2(n-1) + 2(n-1)/n S.
#include "engine/exec/analytic_executor.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/passes/plan_mesh.h"
#include "tests/support/timing.h"

namespace trainyard {

namespace {

/// All times of this file are sums of a few whole numbers of seconds.
Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(1e-12); }

using Exposed = std::map<std::string, Seconds>;

void check_time(const RankTrace& rank, Seconds compute, Seconds optimizer, const Exposed& exposed,
                Seconds host, Seconds bubble) {
  CHECK(rank.time.compute == exactly(compute));
  CHECK(rank.time.optimizer == exactly(optimizer));
  CHECK(rank.time.exposed.size() == exposed.size());
  for (const auto& [kind, seconds] : exposed) {
    CAPTURE(kind);
    REQUIRE(rank.time.exposed.count(kind) == 1);
    CHECK(rank.time.exposed.at(kind) == exactly(seconds));
  }
  CHECK(rank.time.host == exactly(host));
  CHECK(rank.time.bubble == exactly(bubble));
}

std::string mesh_text(int pp, int dp, int tp, int microbatches) {
  return "program 2\nmesh pp=" + std::to_string(pp) + ":stages dp=" + std::to_string(dp) +
         " tp=" + std::to_string(tp) + "\nmicrobatches " + std::to_string(microbatches) + "\n";
}

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

namespace {

/// Two kernels on main, one after the other.
Program two_kernels(const std::string& after_first = "") {
  return verified(mesh_text(1, 1, 1, 1) +
                  "value x uint8[1] step activation\nvalue y uint8[1] step activation\n"
                  "segment 0F(m) stage:0 F\n  main gelu -> x" +
                  after_first +
                  "\n  main gelu x -> y\n  main free x y\n"
                  "class pp:0\n  0F0\nplacement pp:1 dp:1 tp:1\n");
}

void set_both(Costs& costs, const Program& program, Seconds kernel, Seconds launch) {
  for (std::size_t op : {0U, 1U}) cost_of(costs, program, "0F", op) = {kernel, launch, 0, 0};
}

}  // namespace

TEST_CASE("the host issues op after op, and is the bottleneck of small kernels") {
  const Program program = two_kernels();
  Costs costs = zero_costs(program, free_links(1));
  SECTION("launches of 3 s, kernels of 1 s: main waits 2 s for each") {
    set_both(costs, program, 1, 3);
    const Trace trace = run(program, costs);
    CHECK(trace.step_ends[0] == exactly(3 + 3 + 1));
    CHECK(trace.period == exactly(6));
    check_time(trace.ranks[0], 2, 0, {}, 4, 0);
  }
  SECTION("launches of 1 s, kernels of 3 s: only the first launch is seen, in the first step") {
    set_both(costs, program, 3, 1);
    const Trace trace = run(program, costs);
    CHECK(trace.step_ends[0] == exactly(1 + 3 + 3));
    CHECK(trace.period == exactly(6));
    check_time(trace.ranks[0], 6, 0, {}, 0, 0);
  }
}

TEST_CASE("the host waits for an op that it reads, and cannot issue ahead") {
  // Launch 1, kernel 2. Step 1: x issued 1, runs 1-3, read at 3; y issued 4, runs 4-6. Step 2: x
  // issued at 5, runs 6-8; y issued 9, runs 9-11. Period 5: of it 1 s of launch is exposed.
  const Program program = two_kernels(" host_sync");
  Costs costs = zero_costs(program, free_links(1));
  set_both(costs, program, 2, 1);
  const Trace trace = run(program, costs);
  CHECK(trace.step_ends == std::vector<Seconds>{6, 11, 16});
  CHECK(trace.steady);
  check_time(trace.ranks[0], 4, 0, {}, 1, 0);
}

TEST_CASE("while the host waits for a peer the device's gap is a bubble, not the host's") {
  // Rank 0: a kernel of 6 s, issued at 1, then a send of 2 bytes (1 + 2 = 3 s). Rank 1: the
  // receive, which its host waits for, then a kernel of 2 s. The message is under way from 7 to 10;
  // the kernel is issued at 11. Rank 1's idle 11 s: 7 waiting for the peer, 3 the transfer, 1 the
  // launch.
  const Program program = verified(
      mesh_text(2, 1, 1, 1) +
      "transfer 0 pp+1\ntransfer 1 pp-1\npool recv:1\n"
      "value x uint8[2] mb activation\nvalue x@1 uint8[2] mb buffer pool:recv\nvalue y uint8[1] mb "
      "activation\n"
      "segment 0F(m) stage:0 F\n  main gelu -> x[m]\n"
      "segment 0SEND(m) stage:0 C\n  fwd send:0 x[m]\n  main free x[m]\n"
      "segment 1RECV(m) stage:1 C\n  fwd_in recv:1 -> x@1[m] host_sync\n"
      "segment 1F(m) stage:1 F\n  main gelu x@1[m] -> y[m]\n  main free x@1[m] y[m]\n"
      "class pp:0\n  0F0 0SEND0\nclass pp:1\n  1RECV0 1F0\nplacement pp:1 dp:1 tp:1\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0F", 0) = {.kernel = 6, .launch = 1};
  cost_of(costs, program, "1F", 0) = {.kernel = 2, .launch = 1};
  RunOptions options;
  options.max_steps = 1;
  const Trace trace = run(program, costs, options);
  CHECK(trace.period == exactly(13));
  check_time(trace.ranks[1], 2, 0, {{"recv:pp", 3}}, 1, 7);
}

TEST_CASE("a call waits for the calls that it names") {
  // A kernel of 4 s on main; on dp a gather of 2 bytes among 2 (1 + 1/2 * 2 = 2 s) that does not
  // read what the kernel writes.
  const auto trace = [](const std::string& gather) {
    const Program program = verified(mesh_text(1, 2, 1, 1) +
                                     "group dp[dp]\nvalue w uint8[1] persistent parameter\nvalue W "
                                     "uint8[2] persistent parameter\n"
                                     "value x uint8[1] step activation\n"
                                     "segment 0F(m) stage:0 F\n  main gelu -> x\n"
                                     "segment 0GATHER() stage:0 C\n  dp all_gather:dp w -> W\n"
                                     "segment 0END() stage:0 C\n  main free x\n"
                                     "class pp:0\n  0F0 0END " +
                                     gather + "\nplacement pp:1 dp:1 tp:1\n");
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "0F", 0).kernel = 4;
    RunOptions options;
    options.max_steps = 1;
    return run(program, costs, options);
  };
  const Trace beside = trace("0GATHER");
  CHECK(beside.period == exactly(4));
  check_time(beside.ranks[0], 4, 0, {}, 0, 0);
  const Trace after_call = trace("0GATHER^0");
  CHECK(after_call.period == exactly(4 + 2));
  // Main has nothing left to do while the gather runs: exposed all the same.
  check_time(after_call.ranks[0], 4, 0, {{"all_gather:dp", 2}}, 0, 0);
  CHECK(trace("0GATHER^1").period == exactly(4 + 2));  // a free ends, too, when main reaches it
}

TEST_CASE("an edge inside a segment orders ops of two streams") {
  // main: a kernel of 4 s that nobody waits for; dp: a gather of 2 s.
  const auto trace = [](const std::string& edge, const std::string& last) {
    const Program program =
        verified(mesh_text(1, 2, 1, 1) +
                 "group dp[dp]\nvalue w uint8[1] persistent parameter\nvalue W uint8[2] persistent "
                 "parameter\n"
                 "value x uint8[1] step activation\nvalue y uint8[1] step activation\n"
                 "segment 0F(m) stage:0 F\n  main gelu -> x\n  dp all_gather:dp w -> W" +
                 edge + "\n  main gelu -> y" + last +
                 "\n  main free x y\n"
                 "class pp:0\n  0F0\nplacement pp:1 dp:1 tp:1\n");
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "0F", 0).kernel = 4;
    cost_of(costs, program, "0F", 2).kernel = 3;
    RunOptions options;
    options.max_steps = 2;
    return run(program, costs, options).step_ends;
  };
  // Kernels 0-4, 4-7, gather 0-2, whatever the edges, as long as they say no more than the streams
  // do.
  CHECK(trace("", "") == std::vector<Seconds>{7, 14});
  CHECK(trace("", " after:0") == std::vector<Seconds>{7, 14});
  CHECK(trace("", " after:1") == std::vector<Seconds>{7, 14});
  // The gather after the first kernel, 4-6: still under the second; before it: the second is 6-9.
  // In the next step the gather waits for that step's own kernel (9-13) again: 13-15, 15-18.
  CHECK(trace(" after:0", "") == std::vector<Seconds>{7, 14});
  CHECK(trace(" after:0", " after:1") == std::vector<Seconds>{9, 18});
}

TEST_CASE("a step starts under the end of the one before") {
  // first (2 s), second (3 s) reads W, update (1 s) makes the shard w, gathered into W on dp: 4
  // bytes, 1 + 1/2 * 4 = 3 s. The next step's first kernel runs under the gather: update ends at T,
  // gather T - T+3, first T - T+2, second T+3 - T+6, update T+6 - T+7.
  const Program program = verified(
      mesh_text(1, 2, 1, 1) +
      "group dp[dp]\nvalue w uint8[2] persistent parameter\nvalue W uint8[4] persistent parameter\n"
      "value x uint8[1] step activation\nvalue y uint8[1] step activation\n"
      "segment 0F(m) stage:0 F\n  main gelu -> x\n  main gelu x W -> y\n"
      "segment 0UPDATE() stage:0 U\n  main adamw y +> w\n  dp all_gather:dp w -> W\n  main free x "
      "y\n"
      "class pp:0\n  0F0 0UPDATE\nplacement pp:1 dp:1 tp:1\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0F", 0).kernel = 2;
  cost_of(costs, program, "0F", 1).kernel = 3;
  cost_of(costs, program, "0UPDATE", 0).kernel = 1;
  const Trace trace = run(program, costs);
  CHECK(trace.step_ends[0] == exactly(2 + 3 + 1 + 3));
  CHECK(trace.steady);
  CHECK(trace.period == exactly(7));
  check_time(trace.ranks[0], 5, 1, {{"all_gather:dp", 1}}, 0, 0);
}

TEST_CASE("a storage is written again only when its readers have ended") {
  // A kernel of 5 s reads W; the gather of 2 s into W for the next step waits for it: 5-7, and the
  // next kernel for the gather. The first kernel writes nothing that the gather needs.
  const Program program = verified(
      mesh_text(1, 2, 1, 1) +
      "group dp[dp]\nvalue w uint8[1] persistent parameter\nvalue W uint8[2] persistent parameter\n"
      "value x uint8[1] local activation\n"
      "segment 0F(m) stage:0 F\n  main gelu W -> x\n  dp all_gather:dp w -> W\n  main free x\n"
      "class pp:0\n  0F0\nplacement pp:1 dp:1 tp:1\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0F", 0).kernel = 5;
  const Trace trace = run(program, costs);
  CHECK(trace.period == exactly(5 + 2));
  check_time(trace.ranks[0], 5, 0, {{"all_gather:dp", 2}}, 0, 0);
}

TEST_CASE("a side stream takes new storage only after the frees issued before it") {
  // The gather (2 s) of w, which is always there, into y: where y is new storage of the arena, it
  // may be what the free gave back, so it waits for main to get there. Listed before the free it
  // does not.
  const auto period = [](const std::string& ops) {
    const Program program = verified(
        mesh_text(1, 2, 1, 1) +
        "group dp[dp]\nvalue w uint8[1] persistent parameter\nvalue x uint8[2] local activation\n"
        "value y uint8[2] local activation\nsegment 0F(m) stage:0 F\n  main gelu -> x\n" +
        ops + "  main free y\nclass pp:0\n  0F0\nplacement pp:1 dp:1 tp:1\n");
    Costs costs = zero_costs(program, slow_links(2));
    cost_of(costs, program, "0F", 0).kernel = 4;
    RunOptions options;
    options.max_steps = 1;
    return run(program, costs, options).period;
  };
  CHECK(period("  main free x\n  dp all_gather:dp w -> y\n") == exactly(4 + 2));
  CHECK(period("  dp all_gather:dp w -> y\n  main free x\n") == exactly(4));
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

}  // namespace trainyard
