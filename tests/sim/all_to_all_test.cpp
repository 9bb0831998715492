// What an all-to-all of a group with several ranks on several nodes loads: everybody sends a chunk
// to everybody at once, inside nodes over their ports, between nodes over NICs and whatever else
// lies on the way, and it is over when the busiest link is. Each expected time counts the chunks on
// that link by hand; closed forms, fluid and step agree. 1 us per message inside a node, 3 between.
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "sim/network_executor.h"
#include "tests/support/timing.h"

namespace trainyard::all_to_all_test {

namespace {

constexpr double kMicro = 1e-6;
constexpr double kChunk = 48;

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

/// Groups of `ranks`, `apart` from each other: each sends a chunk from every rank to every rank.
Program all_to_alls(int ranks, int apart = 1) {
  const std::string bytes = std::to_string(ranks * 48);
  return verified("program 2\nmesh pp=1:stages dp=" + std::to_string(ranks) + " tp=" +
                  std::to_string(apart) + "\nmicrobatches 1\ngroup dp[dp]\nvalue x uint8[" + bytes +
                  "] step activation\nvalue y uint8[" + bytes +
                  "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n"
                  "  dp all_to_all:dp x -> y\n  main free x y\nclass pp:0\n  0STEP\n"
                  "placement pp:1 dp:" +
                  std::to_string(apart) + " tp:1\n");
}

/// 4 bytes/us per device inside a node and out of a node.
Cluster nodes_of(int per_node, int devices, int nics = 0) {
  Cluster cluster = free_links(devices, per_node);
  cluster.nics = nics;
  cluster.intra.kind = "nvswitch";
  cluster.intra.bandwidth = cluster.inter.bandwidth = 4e6;
  cluster.intra.collective.latency = 1 * kMicro;
  cluster.inter.collective.latency = 3 * kMicro;
  return cluster;
}

/// What closed forms, folded or not, fluid and step answer, with SimGrid or without; they must
/// agree.
Seconds time_of(const Program& program, const Cluster& cluster) {
  const Costs costs = zero_costs(program, cluster);
  const Seconds analytic = run(program, costs).period;
  RunOptions all;
  all.fold = all.reuse = false;
  CHECK(run(program, costs, all).period == exactly(analytic));
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    for (const RunOptions& options : {RunOptions{}, all}) {
      CAPTURE(static_cast<int>(fidelity), options.reuse);
      CHECK(NetworkExecutor(fidelity).run(jobs, costs, options).period == exactly(analytic));
    }
  }
  return analytic;
}

// Where a route passes a link more often than numbers of ranks and nodes tell, the call as a whole
// takes at least what that link does (engine/cost/route_load.h): its latencies are within that.

/// 4 of 8 ranks on each node: 3 messages of a rank stay inside, 4 leave.
constexpr double kLatency = (3 * 1 + 4 * 3) * kMicro;

}  // namespace

TEST_CASE("an all-to-all sends over a NIC what leaves the node alone") {
  // A rank sends 4 chunks out, over a NIC of 1 byte/us of its own, or over one of 2 or 4 that 2 or
  // 4 ranks share; beside them 3 inside at 4 bytes/us.
  const int nics = GENERATE(4, 2, 1);
  CAPTURE(nics);
  CHECK(time_of(all_to_alls(8), nodes_of(4, 8, nics)) == exactly(kLatency + 4 * kChunk / 1e6));
}

TEST_CASE("an all-to-all is as slow as the slower of the node's links and its NICs") {
  Cluster cluster = nodes_of(4, 8);
  cluster.intra.bandwidth = 0.5e6;  // 3 chunks at 0.5 byte/us take longer than 4 at 1
  CHECK(time_of(all_to_alls(8), cluster) == exactly(kLatency + 3 * kChunk / 0.5e6));
  cluster.inter.bandwidth = 2e6;  // 4 at 0.5 are slower again
  CHECK(time_of(all_to_alls(8), cluster) == exactly(kLatency + 4 * kChunk / 0.5e6));
}

TEST_CASE("the links of an all-to-all carry what passes them") {
  const Program program = all_to_alls(8);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  const Fidelity fidelity = GENERATE(Fidelity::kFluid, Fidelity::kStep);
  const Trace trace =
      NetworkExecutor(fidelity).run(jobs, zero_costs(program, nodes_of(4, 8, 2)), {});
  CHECK_FALSE(trace.links.empty());
  for (const LinkLoad& link : trace.links) {
    const bool nic = link.name.starts_with("node");  // of 2 ranks that send 4 chunks out each
    CAPTURE(link.name);
    CHECK(link.bytes == exactly((nic ? 2 * 4 : 3) * kChunk));
  }
}

TEST_CASE("of unequal nodes the busiest NIC decides") {
  // 3 ranks and 1: each of the 3 sends 1 chunk out, the 1 sends 3 over its NIC of 4/3 bytes/us. Its
  // latencies are the longest, too.
  CHECK(time_of(all_to_alls(4), nodes_of(3, 4)) == exactly(9 * kMicro + 3 * kChunk / (4e6 / 3)));
  // One NIC for all of a node: 3 x 1 chunk out of one, 1 x 3 out of the other, at 4 bytes/us.
  CHECK(time_of(all_to_alls(4), nodes_of(3, 4, 1)) == exactly(9 * kMicro + 3 * kChunk / 4e6));
  // 5 ranks send 1 chunk out each, 1 sends 5.
  CHECK(time_of(all_to_alls(6), nodes_of(5, 6, 1)) == exactly(15 * kMicro + 5 * kChunk / 4e6));
  // Where ports are slow, those of the fuller node: 2 chunks at 0.5 byte/us.
  Cluster cluster = nodes_of(3, 4, 1);
  cluster.intra.bandwidth = 0.5e6;
  CHECK(time_of(all_to_alls(4), cluster) == exactly(9 * kMicro + 2 * kChunk / 0.5e6));
}

TEST_CASE("all-to-alls of several groups share NICs as other collectives do") {
  // Two groups of 4, 2 ranks on each of 2 nodes: 1 message inside, 2 out. The NIC of a node carries
  // 2 x 2 chunks of each group.
  const double latency = (1 * 1 + 2 * 3) * kMicro;
  CHECK(time_of(all_to_alls(4, 2), nodes_of(4, 8, 1)) == exactly(latency + 2 * 4 * kChunk / 4e6));
  // A NIC for each rank has 1 byte/us for the 2 that leave it.
  CHECK(time_of(all_to_alls(4, 2), nodes_of(4, 8)) == exactly(latency + 2 * kChunk / 1e6));
}

TEST_CASE("a device's PCIe slot carries what leaves the node, too") {
  // 2 nodes of 2: 1 chunk to the neighbour and 2 out pass a slot of 1 byte/us; 2 a NIC of 2.
  Cluster cluster = nodes_of(2, 4);
  cluster.intra.kind = "pcie";
  cluster.intra.bandwidth = 1e6;
  CHECK(time_of(all_to_alls(4), cluster) == exactly(3 * kChunk / 1e6));
}

TEST_CASE("without peer access all pairs pass the memory of the hosts") {
  // 2 nodes of 2 on one socket: 2 messages inside, 4 out, 4 in, each written and read: 20 chunks.
  Cluster cluster = nodes_of(2, 4);
  cluster.intra.kind = "pcie";
  cluster.p2p = false;
  cluster.host = {1, 8e6, 0};
  CHECK(time_of(all_to_alls(4), cluster) == exactly(20 * kChunk / 8e6));
}

TEST_CASE("an all-to-all leaves a leaf with what goes to other leaves") {
  // 4 nodes of 2, 2 to a leaf, 8:1: 4 ranks send 4 chunks each over a trunk of 2 x 4 / 8 = 1
  // byte/us, and 6 over their NICs of 2.
  Cluster cluster = nodes_of(2, 8);
  cluster.fabric = {"fat-tree", 2, 8};
  const double latency = (1 * 1 + 6 * 3) * kMicro;
  CHECK(time_of(all_to_alls(8), cluster) == exactly(latency + 16 * kChunk / 1e6));
  cluster.fabric.oversubscription = 2;  // 16 chunks at 4 bytes/us; 6 at 2
  CHECK(time_of(all_to_alls(8), cluster) == exactly(latency + 16 * kChunk / 4e6));
  cluster.fabric.oversubscription = 1;
  CHECK(time_of(all_to_alls(8), cluster) == exactly(latency + 6 * kChunk / 2e6));
}

TEST_CASE("on rails what goes to another rail passes the neighbour's port first") {
  // 2 nodes of 2, a rail for each: to its neighbour a rank sends 1 chunk, and 1 that the neighbour
  // sends on, over ports of 0.5 byte/us. A NIC of 2 bytes/us carries 2.
  Cluster cluster = nodes_of(2, 4);
  cluster.fabric.kind = "rail-optimised";
  cluster.fabric.nodes_per_leaf = 2;
  cluster.intra.bandwidth = 0.5e6;
  CHECK(time_of(all_to_alls(4), cluster) == exactly(2 * kChunk / 0.5e6));
  cluster.intra.bandwidth = 4e6;
  CHECK(time_of(all_to_alls(4), cluster) == exactly(7 * kMicro + 2 * kChunk / 2e6));
}

TEST_CASE("on a torus all pairs at once are as slow as its busiest link") {
  // 2 x 2 nodes of 2: what a node sends along x, to its neighbour there and to the one beyond, are
  // 2 x 2 x 2 chunks, and as many go along y: 8 at 0.5 byte/us. A NIC of 2 bytes/us carries 6.
  Cluster cluster = nodes_of(2, 8);
  cluster.fabric.kind = "torus";
  cluster.fabric.dimensions = {2, 2};
  cluster.fabric.link = 0.5e6;
  const double latency = (1 * 1 + 6 * 3) * kMicro;
  CHECK(time_of(all_to_alls(8), cluster) == exactly(latency + 8 * kChunk / 0.5e6));
  cluster.fabric.link = 8e6;
  CHECK(time_of(all_to_alls(8), cluster) == exactly(latency + 6 * kChunk / 2e6));
}

TEST_CASE("an all-to-all never gets slower with a faster link, nor faster with more ranks") {
  Cluster cluster = nodes_of(4, 16, 2);
  const Program program = all_to_alls(12);
  Seconds before = time_of(program, cluster);
  for (BytesPerSecond* link : {&cluster.inter.bandwidth, &cluster.intra.bandwidth}) {
    for (int i = 0; i < 3; ++i) {
      *link *= 3;
      const Seconds now = time_of(program, cluster);
      CHECK(now <= before * (1 + 1e-9));
      before = now;
    }
  }
  before = 0;
  for (const int ranks : {2, 4, 5, 8, 9, 12, 16}) {
    const Seconds now = time_of(all_to_alls(ranks), nodes_of(4, 16, 2));
    CAPTURE(ranks);
    CHECK(now >= before);
    before = now;
  }
}

}  // namespace trainyard::all_to_all_test
