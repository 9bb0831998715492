// Collectives and transfers in closed form: every expected time is derived beside it from round
// numbers, and agrees to 1e-9. Then what must hold whatever the numbers: nothing for one rank,
// never less for more work.
#include "engine/cost/collective_time.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/cost/all_reduce_algorithm.h"
#include "engine/cost/transfer_time.h"

namespace trainyard::collective_time_test {

namespace {

bool close(double value, double expected) {
  return std::abs(value - expected) <= 1e-9 * std::abs(expected);
}

/// Textbook links: 2 us and 100 GB/s per device inside a node of 4, 5 us and 40 GB/s per node
/// between.
Cluster textbook(std::int64_t devices_per_node = 4) {
  Cluster cluster;
  cluster.devices_per_node = devices_per_node;
  cluster.intra.kind = "nvswitch";
  cluster.intra.bandwidth = 100e9;
  cluster.intra.collective.latency = cluster.intra.point_to_point.latency = 2e-6;
  cluster.inter.kind = "infiniband";
  cluster.inter.bandwidth = 40e9;
  cluster.inter.collective.latency = cluster.inter.point_to_point.latency = 5e-6;
  return cluster;
}

Seconds collective(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster) {
  SourceLog log;
  return collective_time(kind, bytes, group, cluster, log);
}

constexpr Bytes kMB = 1'000'000;

}  // namespace

TEST_CASE("a collective inside a node takes the time of its ring") {
  // n = 4, alpha = 2 us, B = 100 GB/s, S = 80 MB: S / B = 800 us.
  const GroupLayout group{4, 1, 4, 1};
  const Cluster cluster = textbook();
  // all-reduce: 2(n-1) alpha + 2(n-1)/n S/B = 12 us + 1.5 * 800 us.
  CHECK(close(collective(OpKind::kAllReduce, 80 * kMB, group, cluster), 1212e-6));
  // all-gather, reduce-scatter, all-to-all: (n-1) alpha + (n-1)/n S/B = 6 us + 0.75 * 800 us.
  CHECK(close(collective(OpKind::kAllGather, 80 * kMB, group, cluster), 606e-6));
  CHECK(close(collective(OpKind::kReduceScatter, 80 * kMB, group, cluster), 606e-6));
  CHECK(close(collective(OpKind::kAllToAll, 80 * kMB, group, cluster), 606e-6));
  // broadcast in c = 28 pieces, the first c with c (c+1) >= (n-2) S / (alpha B) = 800:
  // (n-2+c) (alpha + S/(cB)) = 30 * (2 + 800/28) us.
  CHECK(close(collective(OpKind::kBroadcast, 80 * kMB, group, cluster),
              30 * (2 + 800.0 / 28) * 1e-6));
  // each to the next: alpha + S/B.
  CHECK(close(collective(OpKind::kRingShift, 80 * kMB, group, cluster), 802e-6));
}

TEST_CASE("an all-reduce is a reduce-scatter and an all-gather") {
  const std::int64_t n = GENERATE(2, 3, 5, 8);
  const Bytes bytes = GENERATE(Bytes{0}, Bytes{1}, 64 * kMB);
  const Cluster cluster = textbook(8);
  const GroupLayout group{n, 1, n, 1};
  CAPTURE(n, bytes);
  CHECK(close(collective(OpKind::kAllReduce, bytes, group, cluster),
              collective(OpKind::kReduceScatter, bytes, group, cluster) +
                  collective(OpKind::kAllGather, bytes, group, cluster)));
}

TEST_CASE("a ring across nodes advances at its slowest edge and pays each hop's latency") {
  const Cluster cluster = textbook();
  SECTION("a shift is one step, over the slowest edge") {
    CHECK(close(collective(OpKind::kRingShift, 80 * kMB, {4, 4, 1, 1}, cluster), 5e-6 + 8e-3));
    CHECK(close(collective(OpKind::kRingShift, 80 * kMB, {8, 2, 4, 1}, cluster), 5e-6 + 2e-3));
  }
  SECTION("one rank in each of 4 nodes has a quarter of the node's bandwidth") {
    // B = 40 GB/s / 4 = 10 GB/s; every hop is between nodes: 3 * 5 us + 0.75 * 80 MB / 10 GB/s.
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {4, 4, 1, 1}, cluster), 15e-6 + 6e-3));
  }
  SECTION("all 4 ranks in each of 2 nodes have all of it") {
    // n = 8, B = min(100, 40) GB/s. Once round: 1 hop between nodes, 6 inside.
    // all-gather: 5 us + 6 * 2 us + 7/8 * 80 MB / 40 GB/s = 17 us + 1750 us; all-reduce: twice
    // that.
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 1}, cluster), 1767e-6));
    CHECK(close(collective(OpKind::kAllReduce, 80 * kMB, {8, 2, 4, 1}, cluster), 3534e-6));
  }
  SECTION("a slow link inside the nodes is the slowest edge") {
    Cluster slow = cluster;
    slow.intra.bandwidth = 20e9;
    // B = min(20, 40) GB/s: 17 us + 7/8 * 80 MB / 20 GB/s.
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 1}, slow), 17e-6 + 3.5e-3));
    // Without an edge inside a node it does not count: n = 2, 5 us + 1/2 * 80 MB / 10 GB/s.
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {2, 2, 1, 1}, slow), 5e-6 + 4e-3));
  }
  SECTION("leaving the leaf switch divides the bandwidth by the oversubscription") {
    Cluster tapered = cluster;
    tapered.fabric = {"fat-tree", 1, 4};
    // B = 40 / 4 = 10 GB/s: 17 us + 7/8 * 80 MB / 10 GB/s.
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 2}, tapered), 17e-6 + 7e-3));
    CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 1}, tapered), 1767e-6));
  }
}

TEST_CASE("an all-to-all sends over NICs what leaves a node, and over its links the rest") {
  // 16 ranks on 2 nodes of 8, S = 80 MB, so 5 MB to each: 8 leave, over a NIC of 5 GB/s, 7 stay.
  Cluster cluster = textbook(8);
  const Seconds latency = 8 * 5e-6 + 7 * 2e-6;
  const auto time = [&](const GroupLayout& group) {
    return collective(OpKind::kAllToAll, 80 * kMB, group, cluster);
  };
  CHECK(close(time({16, 2, 8, 1}), latency + 8e-3));
  SECTION("8 of them share 2 NICs: 4 x 8 messages over each, of 20 GB/s") {
    cluster.nics = 2;
    CHECK(close(time({16, 2, 8, 1}), latency + 8e-3));
  }
  SECTION("links of 4 GB/s inside the nodes are slower: 7 messages") {
    cluster.intra.bandwidth = 4e9;
    CHECK(close(time({16, 2, 8, 1}), latency + 35e-3 / 4));
  }
  SECTION("both begin at once, at the efficiencies of their curves") {
    cluster.intra.collective.efficiency = 0.02;  // 7 messages at 2 GB/s
    cluster.inter.collective.efficiency = 0.5;
    CHECK(close(time({16, 2, 8, 1}), latency + 17.5e-3));
    cluster.intra.collective.efficiency = 1;  // 8 messages at 2.5 GB/s
    CHECK(close(time({16, 2, 8, 1}), latency + 16e-3));
  }
  SECTION("of unequal nodes the busiest NIC, and the fullest node") {
    // 2 ranks on one node, 8 on another: 8 MB to each. Of the 2, 8 messages leave, of the 8, 2.
    GroupLayout uneven{10, 2, 2, 1};
    uneven.most_per_node = 8;
    uneven.nic_messages = 8;
    CHECK(close(time(uneven), 8 * 5e-6 + 1 * 2e-6 + 8 * 8e6 / 5e9));
    cluster.intra.bandwidth = 4e9;  // 7 messages on the ports of the fuller one: 14 ms
    CHECK(close(time(uneven), 8 * 5e-6 + 1 * 2e-6 + 7 * 8e6 / 4e9));
  }
  SECTION("one rank on each node, and one node, send everything over one kind of links") {
    CHECK(close(time({16, 16, 1, 1}), 15 * 5e-6 + 15e-3));
    CHECK(close(time({8, 1, 8, 1}), 7 * 2e-6 + 7 * 10e6 / 100e9));
  }
}

TEST_CASE("efficiency, startup and half size enter a collective as LinkCurve says") {
  Cluster cluster = textbook(8);
  LinkCurve& curve = cluster.intra.collective;
  curve = {30e-6, 1e-6, 0.5, 4 * kMB, {}, {}};
  // n = 2, S = 16 MB: 30 us + 2 us + 16 MB / 50 GB/s * (1 + sqrt(4/16)) = 32 us + 320 us * 1.5.
  CHECK(close(collective(OpKind::kAllReduce, 16 * kMB, {2, 1, 2, 1}, cluster), 512e-6));

  curve = {0, 0, 0.5, 0, {{2, 0.2}, {4, 0.8}}, {}};
  // S = 10 MB at n = 2: 10 MB / 20 GB/s; n = 3 as 2; n = 8 as 4: 1.75 * 10 MB / 80 GB/s.
  CHECK(close(collective(OpKind::kAllReduce, 10 * kMB, {2, 1, 2, 1}, cluster), 500e-6));
  CHECK(close(collective(OpKind::kAllGather, 10 * kMB, {3, 1, 3, 1}, cluster), 2e-3 / 6));
  CHECK(close(collective(OpKind::kAllReduce, 10 * kMB, {8, 1, 8, 1}, cluster), 218.75e-6));
}

TEST_CASE("bytes beyond a size move at an efficiency of their own") {
  Cluster cluster = textbook(8);
  LinkCurve& curve = cluster.intra.collective;
  curve = {10e-6, 0, 0.5};
  curve.efficiency_beyond = {{4 * kMB, 1}, {12 * kMB, 0.8}};
  // n = 2 sends S = 16 MB: 4 at 50 GB/s, 8 at 100, 4 at 80: 10 + 80 + 80 + 50 us.
  CHECK(close(collective(OpKind::kAllReduce, 16 * kMB, {2, 1, 2, 1}, cluster), 220e-6));
  // A gather of it sends half of each part.
  CHECK(close(collective(OpKind::kAllGather, 16 * kMB, {2, 1, 2, 1}, cluster), 115e-6));
  CHECK(close(collective(OpKind::kAllReduce, 4 * kMB, {2, 1, 2, 1}, cluster), 90e-6));
  // Continuous, and never faster for more.
  Seconds previous = 0;
  for (Bytes bytes = 0; bytes <= 20 * kMB; bytes += kMB / 4) {
    const Seconds time = collective(OpKind::kAllReduce, bytes, {2, 1, 2, 1}, cluster);
    CHECK(time > previous);
    if (previous > 0) CHECK(time - previous < 5.1e-6);  // 0.25 MB at 50 GB/s
    previous = time;
  }
}

TEST_CASE("a group takes the numbers of its own size, else of the next smaller") {
  Cluster cluster = textbook(8);
  LinkCurve& curve = cluster.intra.collective;
  curve = {10e-6, 1e-6, 1};
  curve.by_ranks = {{2, {20e-6, 0.5, {}}}, {4, {30e-6, 0.25, {{8 * kMB, 1}}}}};
  // n = 2 and 3: 20 us, a step each way, 50 GB/s.
  CHECK(close(collective(OpKind::kAllReduce, 10 * kMB, {2, 1, 2, 1}, cluster), 22e-6 + 200e-6));
  CHECK(close(collective(OpKind::kAllReduce, 15 * kMB, {3, 1, 3, 1}, cluster), 24e-6 + 400e-6));
  // n = 8 as 4: 7/4 of 8 MB at 25 GB/s and of 8 MB at 100: 30 + 14 + 560 + 140 us.
  CHECK(close(collective(OpKind::kAllReduce, 16 * kMB, {8, 1, 8, 1}, cluster), 744e-6));
  // A send is between two.
  cluster.intra.point_to_point.by_ranks = {{2, {7e-6, 0.5, {}}}};
  SourceLog log;
  CHECK(close(transfer_time(10 * kMB, Distance::kSameNode, cluster, log), 2e-6 + 7e-6 + 200e-6));
}

TEST_CASE("what leaves bridged pairs has all of the uplinks and of the link between sockets") {
  // Pairs reach 80 of the bridge's 100 GB/s, and 20 % of it, 20 GB/s, where they go on over PCIe.
  Cluster cluster = textbook(8);
  cluster.intra.kind = "nvlink-bridge";
  LinkCurve& curve = cluster.intra.collective;
  curve = {0, 2e-6, 0.8};
  curve.by_ranks = {{2, {0, 0.8, {}}}, {3, {0, 0.2, {}}}};
  cluster.intra.point_to_point.by_ranks = {{2, {0, 0.8, {}}}};
  GroupLayout group{4, 1, 4, 1};
  group.beyond_pairs = true;
  const auto ring = [&] { return collective(OpKind::kAllReduce, 80 * kMB, group, cluster); };
  SourceLog log;
  const auto send = [&](Distance to) { return transfer_time(80 * kMB, to, cluster, log); };
  // 12 us, and 1.5 times 80 MB at 20 GB/s.
  CHECK(close(ring(), 12e-6 + 6000e-6));
  // An uplink of 40 GB/s holds no ring up, one of 10 all: 1.5 times 80 MB at 10 GB/s, not at a
  // fifth of that.
  cluster.pcie = {4, 40e9};
  CHECK(close(ring(), 12e-6 + 6000e-6));
  cluster.pcie.uplink = 10e9;
  CHECK(close(ring(), 12e-6 + 12000e-6));
  CHECK(close(send(Distance::kAcrossSwitches), 2e-6 + 8000e-6));
  CHECK(close(send(Distance::kSamePair), 2e-6 + 1000e-6));
  // So between sockets, which a ring of 8 passes.
  cluster.host = {.sockets = 2, .link = 5e9};
  group.ranks = group.ranks_per_node = 8;
  CHECK(close(ring(), 28e-6 + 1.75 * 16000e-6));
  CHECK(close(send(Distance::kAcrossSockets), 2e-6 + 16000e-6));
}

TEST_CASE(
    "a ring that goes on to other nodes has the network's latency per rank, where it says one") {
  Cluster cluster = textbook();
  cluster.inter.collective.rank_latency = 3e-6;
  // n = 8 on 2 nodes: 1 step between nodes, 6 inside them: 5 + 18 us, and 7/8 of 80 MB at 40 GB/s.
  CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 1}, cluster), 23e-6 + 1750e-6));
  CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {4, 1, 4, 1}, cluster),
              606e-6));  // not in one node
}

TEST_CASE("auto takes what the library would on links with a fitted curve") {
  Cluster cluster = textbook(8);
  cluster.collectives["all_reduce"] = "auto";
  cluster.intra.collective.efficiency = 0.8;
  cluster.inter.collective.startup = 1e-6;
  cluster.intra.in_switch = LinkCurve{20e-6, 0, 0.5};
  const auto taken = [&](Bytes bytes, const GroupLayout& group) {
    return algorithm_of(bytes, group, cluster).name;
  };
  // 8 ranks: a ring takes 28 us and 7/4 S at 80 GB/s, the switches 20 us and 9/8 S at 50: 21.9
  // and 22.5 us a MB.
  CHECK(taken(kMB, {8, 1, 8, 1}) == "nvls");        // 42.5 us against 49.9
  CHECK(taken(100 * kMB, {8, 1, 8, 1}) == "ring");  // 2270 against 2215
  // 64 nodes of 8: a ring takes 1024 - 2 steps, a double tree 2 (7 + 6).
  CHECK(taken(kMB, {512, 64, 8, 1}) == "double-tree");
  // Only where they are named: trees of switches.
  cluster.collectives["all_reduce"] = "nvls-tree";
  CHECK(taken(kMB, {512, 64, 8, 1}) == "nvls-tree");
  CHECK(taken(kMB, {511, 64, 7, 1}) == "double-tree");  // nodes hold unlike numbers
  CHECK(taken(kMB, {8, 1, 8, 1}) == "nvls");
  cluster.collectives["all_reduce"] = "sharp";
  CHECK(taken(kMB, {64, 64, 1, 1}) == "sharp");
  CHECK(taken(100 * kMB, {8, 1, 8, 1}) == "ring");
  // One rank per node: there and back 5 us each, the start-up, and S at 40 GB/s / 8 devices.
  CHECK(close(collective(OpKind::kAllReduce, 10 * kMB, {64, 64, 1, 1}, cluster), 11e-6 + 2e-3));
}

TEST_CASE("the larger startup counts once in a group across nodes") {
  Cluster cluster = textbook();
  cluster.intra.collective.startup = 40e-6;
  cluster.inter.collective.startup = 20e-6;
  CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {8, 2, 4, 1}, cluster), 1807e-6));
  CHECK(close(collective(OpKind::kAllGather, 80 * kMB, {4, 4, 1, 1}, cluster), 6035e-6));
}

TEST_CASE("a transfer takes latency and bytes over the bandwidth of its distance") {
  Cluster cluster = textbook();
  cluster.fabric = {"fat-tree", 1, 2};
  SourceLog log;
  CHECK(transfer_time(10 * kMB, Distance::kSameDevice, cluster, log) == 0);
  CHECK(close(transfer_time(10 * kMB, Distance::kSameNode, cluster, log), 102e-6));
  // A device's NIC between nodes: 40 GB/s / 4 = 10 GB/s. Half of the node's 40 GB/s leave its leaf,
  // which is room enough for one transfer: 20 GB/s.
  CHECK(close(transfer_time(10 * kMB, Distance::kSameLeaf, cluster, log), 1005e-6));
  CHECK(close(transfer_time(10 * kMB, Distance::kAcrossLeaves, cluster, log), 1005e-6));
  // At 16 : 1 only 40 / 16 = 2.5 GB/s leave it: 10 MB take 4 ms.
  cluster.fabric.oversubscription = 16;
  CHECK(close(transfer_time(10 * kMB, Distance::kAcrossLeaves, cluster, log), 4005e-6));
  CHECK(close(transfer_time(0, Distance::kSameLeaf, cluster, log), 5e-6));
}

TEST_CASE("one rank communicates in no time") {
  const OpKind kind = GENERATE(OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                               OpKind::kAllToAll, OpKind::kBroadcast, OpKind::kRingShift);
  Cluster cluster = textbook(1);
  cluster.intra = {};  // it may have no link at all
  CHECK(collective(kind, 80 * kMB, {1, 1, 1, 1}, cluster) == 0);
}

TEST_CASE("a collective never gets faster with more bytes, more ranks or fewer links") {
  const OpKind kind =
      GENERATE(OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast, OpKind::kAllToAll);
  Cluster cluster = textbook(8);
  cluster.intra.collective.half_size = kMB;
  Seconds previous = 0;
  for (Bytes bytes : {Bytes{0}, Bytes{1}, kMB, 10 * kMB, 1000 * kMB}) {
    const Seconds time = collective(kind, bytes, {8, 1, 8, 1}, cluster);
    CHECK(time >= previous);
    CHECK(collective(kind, bytes, {16, 2, 8, 1}, cluster) >= time);
    previous = time;
  }
  previous = 0;
  for (std::int64_t n : {1, 2, 3, 4, 6, 8}) {
    const Seconds time = collective(kind, 100 * kMB, {n, 1, n, 1}, cluster);
    CHECK(time >= previous);
    previous = time;
  }
  CHECK(collective(kind, kMB, {8, 8, 1, 1}, cluster) >
        collective(kind, kMB, {8, 1, 8, 1}, cluster));
}

TEST_CASE("the log names each class of links that was used once, and where its figures come from") {
  const Cluster cluster = textbook();
  SourceLog log;
  for (int i = 0; i < 3; ++i) collective_time(OpKind::kAllReduce, kMB, {4, 1, 4, 1}, cluster, log);
  REQUIRE(log.entries().size() == 1);
  CHECK(log.entries()[0].name == "nvswitch.collective");

  // A link written by hand has one source for both curves.
  Cluster written = textbook();
  written.intra.source = "written in the study";
  written.intra.provenance = "derived";
  SourceLog other;
  transfer_time(kMB, Distance::kSameNode, written, other);
  CHECK(other.entries()[0].name == "nvswitch.point_to_point");
  CHECK(other.entries()[0].kind == "derived");
  CHECK(other.entries()[0].note == "written in the study");
}

}  // namespace trainyard::collective_time_test
