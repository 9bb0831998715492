// What waits for what: ops for the host, for the calls and ops that they name, for storage; and a
// step for the one before. Worked by hand as in analytic_executor_test.cpp.
#include <catch2/catch.hpp>

#include "tests/support/hand_timing.h"

namespace trainyard::stream_order_test {

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

}  // namespace trainyard::stream_order_test
