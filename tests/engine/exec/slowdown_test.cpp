// Kernels and messages that slow each other, worked by hand. slow_links(): inside a node 1 s + 1 s
// per byte, so an all-reduce of S bytes between 2 ranks takes 2 + S alone, a transfer of S bytes 1
// + S.
#include <catch2/catch.hpp>

#include "tests/support/timing.h"

namespace trainyard::slowdown_test {

namespace {

Approx exactly(double value) { return Approx(value).epsilon(1e-12).margin(0); }

/// A kernel of `kernel` s beside an all-reduce of `bytes`, on both ranks of a group.
Trace side_by_side(double kernel, int bytes, const Slowdown& slowdown) {
  const Program program = verified(
      "program 2\nmesh pp=1:stages dp=1 tp=2\nmicrobatches 1\ngroup tp[tp]\nvalue x uint8[" +
      std::to_string(bytes) + "] step activation\nvalue y uint8[" + std::to_string(bytes) +
      "] step activation\nvalue z uint8[1] step activation\n"
      "segment 0STEP() stage:0 C\n  main zero -> x\n  tp all_reduce:tp x -> y\n  main gelu -> z\n  "
      "main free z\n  main free x y\n"
      "class pp:0\n  0STEP\nplacement pp:1 dp:1 tp:1\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0STEP", 2).kernel = kernel;
  costs.slowdown = slowdown;
  RunOptions one_step;
  one_step.max_steps = 1;
  return run(program, costs, one_step);
}

}  // namespace

TEST_CASE("a kernel is slowed as long as a message is beside it") {
  // 10 s beside 4 s: in those 4 s it does 4 / 1.25 = 3.2, the other 6.8 alone.
  const Trace trace = side_by_side(10, 2, {1.25, 1, {}});
  CHECK(trace.period == exactly(10.8));
  CHECK(trace.ranks[0].time.compute == exactly(10.8));
  CHECK(trace.ranks[0].time.exposed.empty());
}

TEST_CASE("a message is slowed as long as a kernel is beside it") {
  SECTION("the kernel ends first") {
    // 2 s beside 8 s: after 2 s the message has done 2 / 1.5 = 4/3 of its 8 s, and ends at 2 + 8 -
    // 4/3.
    const Trace trace = side_by_side(2, 6, {1, 1.5, {}});
    CHECK(trace.period == exactly(10 - 4.0 / 3));
    CHECK(trace.ranks[0].time.exposed.at("all_reduce:tp") == exactly(8 - 4.0 / 3));
  }
  SECTION("the message ends first") {
    CHECK(side_by_side(10, 2, {1, 1.5, {}}).period ==
          exactly(10));  // after 4 x 1.5 s, the kernel does not notice
  }
}

TEST_CASE("both slow each other") {
  SECTION("the message ends first") {
    // It takes 4 x 1.5 = 6 s, in which the kernel does 6 / 1.25 = 4.8 of its 10.
    CHECK(side_by_side(10, 2, {1.25, 1.5, {}}).period == exactly(6 + 5.2));
  }
  SECTION("the kernel ends first") {
    // It takes 2 x 1.25 = 2.5 s, in which the message does 2.5 / 1.5 of its 8.
    CHECK(side_by_side(2, 6, {1.25, 1.5, {}}).period == exactly(2.5 + 8 - 2.5 / 1.5));
  }
}

TEST_CASE(
    "a message goes at the pace of its slowest member, a kernel notices only its own rank's") {
  // Stage 0 makes x (1 s), sends it (1 + 3 s) and computes for 10 s beside; stage 1 only receives,
  // then 5 s.
  const Program program = verified(
      "program 2\nmesh pp=2:stages dp=1 tp=1\nmicrobatches 1\ntransfer 0 pp+1\ntransfer 1 "
      "pp-1\npool in:1\n"
      "value x uint8[3] mb activation\nvalue y uint8[3] mb buffer pool:in\nvalue z uint8[1] local "
      "activation\n"
      "segment 0F(m) stage:0 F\n  main gelu -> x[m]\nsegment 0SEND(m) stage:0 C\n  fwd send:0 "
      "x[m]\n"
      "segment 0FREE(m) stage:0 C\n  main free x[m]\nsegment 0OTHER(m) stage:0 F\n  main gelu -> "
      "z\n  main free z\n"
      "segment 1RECV(m) stage:1 C\n  fwd recv:1 -> y[m]\nsegment 1F(m) stage:1 F\n  main gelu y[m] "
      "-> z\n  main free z y[m]\n"
      "class pp:0\n  0F0 0SEND0 0OTHER0 0FREE0\nclass pp:1\n  1RECV0 1F0\nplacement pp:1 dp:2 "
      "tp:2\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0F", 0).kernel = 1;
  cost_of(costs, program, "0OTHER", 0).kernel = 10;
  cost_of(costs, program, "1F", 0).kernel = 5;
  costs.slowdown = {1.25, 2, {}};
  RunOptions one_step;
  one_step.max_steps = 1;
  const Trace trace = run(program, costs, one_step);
  // Transfer from 1 to 1 + 4 x 2 = 9, stage 1 until 14. Stage 0: 8 / 1.25 = 6.4 of 10 by then, 3.6
  // alone.
  CHECK(trace.ranks[0].time.compute == exactly(1 + 8 + 3.6));
  CHECK(trace.ranks[1].time.compute == exactly(5));
  CHECK(trace.period == exactly(14));
}

TEST_CASE("a message that begins and ends in the midst of a kernel slows it for just that long") {
  // Two all-reduces of 2 bytes, 4 s each, the second when the first has ended, beside one kernel of
  // 20 s: 8 s slowed, 8 / 1.6 = 5 done, 15 alone.
  const Program program = verified(
      "program 2\nmesh pp=1:stages dp=1 tp=2\nmicrobatches 1\ngroup tp[tp]\nvalue x uint8[2] "
      "step activation\n"
      "value y uint8[2] step activation\nvalue w uint8[2] step activation\nvalue z uint8[1] step "
      "activation\n"
      "segment 0STEP() stage:0 C\n  main zero -> x\n  tp all_reduce:tp x -> y\n  tp all_reduce:tp "
      "y -> w\n  main gelu -> z\n"
      "  main free z\n  main free x y w\nclass pp:0\n  0STEP\nplacement pp:1 dp:1 "
      "tp:1\n");
  Costs costs = zero_costs(program, slow_links(2));
  cost_of(costs, program, "0STEP", 3).kernel = 20;
  costs.slowdown = {1.6, 1, {}};
  RunOptions one_step;
  one_step.max_steps = 1;
  CHECK(run(program, costs, one_step).period == exactly(8 + 15));
}

}  // namespace trainyard::slowdown_test
