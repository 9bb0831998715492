// Messages of like channels on one link: closed forms give each the same part of it, as fair shares
// do. alpha = 3 us per step, a node's NICs 4 bytes/us together, chunks of 48 bytes.
#include <catch2/catch.hpp>
#include <string>

#include "sim/network_executor.h"
#include "tests/support/timing.h"

namespace trainyard::like_messages_test {

namespace {

constexpr double kAlpha = 3e-6, kB = 4e6;
constexpr int kChunk = 48;

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

/// Free inside a node.
Cluster with_nics(int devices, int per_node, int nics) {
  Cluster cluster = free_links(devices, per_node);
  cluster.inter.bandwidth = kB;
  cluster.inter.collective.latency = cluster.inter.point_to_point.latency = kAlpha;
  cluster.nics = nics;
  return cluster;
}

Seconds time_of(const Program& program, const Cluster& cluster, Fidelity fidelity) {
  const Costs costs = zero_costs(program, cluster);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  return NetworkExecutor(fidelity).run(jobs, costs, {}).period;
}

/// What closed forms, folded or not and op by op, fluid and step answer; they must agree.
Seconds time_of(const Program& program, const Cluster& cluster) {
  const Costs costs = zero_costs(program, cluster);
  const Seconds analytic = run(program, costs).period;
  for (const bool fold : {true, false}) {
    RunOptions options;
    options.fold = fold;
    options.reuse = fold;
    CHECK(run(program, costs, options).period == exactly(analytic));
  }
  CHECK(time_of(program, cluster, Fidelity::kFluid) == exactly(analytic));
  CHECK(time_of(program, cluster, Fidelity::kStep) == exactly(analytic));
  return analytic;
}

/// An all-gather in each of the groups along dp, whose ranks lie `tp` apart.
Program gathers(int dp, int tp) {
  return verified(
      "program 2\nmesh pp=1:stages dp=" + std::to_string(dp) + " tp=" + std::to_string(tp) +
      "\nmicrobatches 1\ngroup dp[dp]\nvalue x uint8[" + std::to_string(kChunk) +
      "] step activation\nvalue y uint8[" + std::to_string(dp * kChunk) +
      "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n  dp all_gather:dp x -> y\n"
      "  main free x y\nclass pp:0\n  0STEP\nplacement pp:1 dp:" +
      std::to_string(tp) + " tp:1\n");
}

}  // namespace

TEST_CASE("groups behind the same NICs leave each other equal parts, however many NICs there are") {
  // Four groups of one rank on each of two nodes: 4 chunks leave each node.
  const int nics = GENERATE(1, 2, 4);
  CAPTURE(nics);
  CHECK(time_of(gathers(2, 4), with_nics(8, 4, nics)) == exactly(kAlpha + 4 * kChunk / kB));
}

TEST_CASE("the rings of one group over several NICs count once, those of other groups besides") {
  // Two groups of four ranks, two on each node, one beside each of two NICs: a group's ring is two,
  // half of it over each NIC, and passes nodes once and a node's other rank free. 3 steps of a
  // chunk, of two groups.
  const double alone = kAlpha + 3 * kChunk / kB;
  CHECK(time_of(gathers(4, 1), with_nics(4, 2, 2)) == exactly(alone));
  CHECK(time_of(gathers(4, 2), with_nics(8, 4, 2)) == exactly(kAlpha + 2 * 3 * kChunk / kB));
  CHECK(time_of(gathers(4, 2), with_nics(8, 4, 1)) == exactly(kAlpha + 2 * 3 * kChunk / kB));
}

TEST_CASE("groups are alike whatever a ring through all ranks does to the ports of each") {
  // The two groups of above, then a ring of all eight, which leaves each node at one rank: 7 steps.
  const Program program = verified(
      "program 2\nmesh pp=1:stages dp=4 tp=2\nmicrobatches 1\ngroup dp[dp]\ngroup all[dp,tp]\n"
      "value x uint8[48] step activation\nvalue y uint8[192] step activation\n"
      "value z uint8[384] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n"
      "  dp all_gather:dp x -> y\n  dp all_gather:all x -> z\n  main free x y z\n"
      "class pp:0\n  0STEP\nplacement pp:1 dp:2 tp:1\n");
  Cluster cluster = with_nics(8, 4, 1);
  const Seconds together = kAlpha + 2 * 3 * kChunk / kB + kAlpha + 7 * kChunk / kB;
  CHECK(time_of(program, cluster) == exactly(together));
  // Rails of one NIC are none: no message passes a neighbour's port on the way to another rail.
  cluster.fabric.kind = "rail-optimised";
  cluster.fabric.nodes_per_leaf = 2;
  CHECK(time_of(program, cluster) == exactly(together));
}

TEST_CASE("sends of the ranks of a node share its NIC") {
  const Program program = verified(
      "program 2\nmesh pp=2:stages dp=1 tp=4\nmicrobatches 1\ntransfer 0 pp+1\ntransfer 1 pp-1\n"
      "pool in:1\nvalue x uint8[48] mb activation\nvalue y uint8[48] mb buffer pool:in\n"
      "segment 0F(m) stage:0 F\n  main gelu -> x[m]\nsegment 0SEND(m) stage:0 C\n  fwd send:0 "
      "x[m]\n"
      "segment 0FREE(m) stage:0 C\n  main free x[m]\nsegment 1RECV(m) stage:1 C\n  fwd recv:1 -> "
      "y[m]\nsegment 1F(m) stage:1 F\n  main free y[m]\n"
      "class pp:0\n  0F0 0SEND0 0FREE0\nclass pp:1\n  1RECV0 1F0\nplacement pp:4 dp:4 tp:1\n");
  CHECK(time_of(program, with_nics(8, 4, 1)) == exactly(kAlpha + 4 * kChunk / kB));
  // A device behind half as many NICs shares with one other.
  CHECK(time_of(program, with_nics(8, 4, 2)) == exactly(kAlpha + 2 * kChunk / (kB / 2)));
}

TEST_CASE("of unlike messages behind one NIC only executors with contention know that they meet") {
  // Two stages on each node, of two ranks there and there: each gathers by itself.
  const Program program = verified(
      "program 2\nmesh pp=2:stages dp=2 tp=1\nmicrobatches 1\ngroup dp[dp]\n"
      "value x uint8[48] step activation\nvalue y uint8[96] step activation\n"
      "segment 0STEP() stage:0 C\n  main zero -> x\n  dp all_gather:dp x -> y\n  main free x y\n"
      "segment 1STEP() stage:1 C\n  main zero -> x\n  dp all_gather:dp x -> y\n  main free x y\n"
      "class pp:0\n  0STEP\nclass pp:1\n  1STEP\nplacement pp:1 dp:2 tp:1\n");
  const Cluster cluster = with_nics(4, 2, 1);
  CHECK(run(program, zero_costs(program, cluster)).period == exactly(kAlpha + kChunk / kB));
  CHECK(time_of(program, cluster, Fidelity::kFluid) == exactly(kAlpha + 2 * kChunk / kB));
}

}  // namespace trainyard::like_messages_test
