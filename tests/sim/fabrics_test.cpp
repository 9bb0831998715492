// Every fabric and every path inside a node: the closed form of a collective that has the cluster
// to itself, derived by hand from the links that its messages pass, is what all three executors
// answer. alpha = 3 us per step, NICs and ports of 4 bytes/us, S bytes, n ranks.
#include <catch2/catch.hpp>
#include <cmath>

#include "app/simulation.h"
#include "sim/network_executor.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::fabrics_test {

namespace {

constexpr double kAlpha = 3e-6, kB = 4e6;
constexpr int kChunk = 48;

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

Program collective(const std::string& kind, int n, int bytes_in, int bytes_out) {
  return verified("program 2\nmesh pp=1:stages dp=1 tp=" + std::to_string(n) +
                  "\nmicrobatches 1\ngroup tp[tp]\nvalue x uint8[" + std::to_string(bytes_in) +
                  "] step activation\nvalue y uint8[" + std::to_string(bytes_out) +
                  "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n  tp " + kind +
                  ":tp x -> y\n  main free x y\nclass pp:0\n  0STEP\nplacement pp:1 dp:1 tp:1\n");
}

Cluster plain_links(int n, int per_node) {
  Cluster cluster = free_links(n, per_node);
  for (LinkClass* link : {&cluster.intra, &cluster.inter}) {
    link->bandwidth = kB;
    link->collective.latency = link->point_to_point.latency = kAlpha;
  }
  return cluster;
}

/// What all executors answer; they must agree.
Seconds time_of(const Program& program, const Cluster& cluster) {
  const Costs costs = zero_costs(program, cluster);
  const Seconds analytic = run(program, costs).period;
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    for (const bool reuse : {true, false}) {
      RunOptions options;
      options.reuse = reuse;
      const std::array<Job, 1> jobs = {Job{&program, 0}};
      CAPTURE(static_cast<int>(fidelity), reuse);
      CHECK(NetworkExecutor(fidelity).run(jobs, costs, options).period == exactly(analytic));
    }
  }
  return analytic;
}

Seconds all_gather(int n, const Cluster& cluster) {
  return time_of(collective("all_gather", n, kChunk, n * kChunk), cluster);
}

Seconds all_reduce(int n, Cluster cluster, const std::string& algorithm) {
  cluster.collectives["all_reduce"] = algorithm;
  return time_of(collective("all_reduce", n, n * kChunk, n * kChunk), cluster);
}

}  // namespace

TEST_CASE("a ring round a torus passes each link once") {
  // 4 x 4 places: 0 to 1 to 2 to 3 along x; 3 to 4 on from 3 to 0, and up to 4; ... 15 back over 12
  // to 0. Links of 1 byte/us are slower than the NICs: 15 (alpha + chunk / 1).
  Cluster cluster = plain_links(16, 1);
  cluster.fabric.kind = "torus";
  cluster.fabric.dimensions = {4, 4};
  cluster.fabric.link = 1e6;
  CHECK(all_gather(16, cluster) == exactly(15 * (kAlpha + kChunk / 1e6)));
  cluster.fabric.link = 8e6;  // now the NICs are
  CHECK(all_gather(16, cluster) == exactly(15 * (kAlpha + kChunk / kB)));
  // 2 x 2 x 4: a ring of 16 again turns at the ends of x and y.
  cluster.fabric.dimensions = {2, 2, 4};
  cluster.fabric.link = 2e6;
  CHECK(all_gather(16, cluster) == exactly(15 * (kAlpha + kChunk / 2e6)));
}

TEST_CASE("an all-to-all on a torus is held up where two messages share a link") {
  // 4 x 2: to the rank two further, every message goes two links along x, so each link carries two;
  // no other round is worse. 7 (alpha + 2 chunk / 1).
  Cluster cluster = plain_links(8, 1);
  cluster.fabric.kind = "torus";
  cluster.fabric.dimensions = {4, 2};
  cluster.fabric.link = 1e6;
  CHECK(time_of(collective("all_to_all", 8, 8 * kChunk, 8 * kChunk), cluster) ==
        exactly(7 * (kAlpha + 2 * kChunk / 1e6)));
}

TEST_CASE("a ring on a dragonfly is as fast as the link between two groups") {
  // Two groups of two routers with a node each; 1 byte/us between the groups, 2 inside. 1 to 2
  // passes the one that joins them; 3 to 0 passes it the other way, and a link inside each group.
  Cluster cluster = plain_links(4, 1);
  cluster.fabric.kind = "dragonfly";
  cluster.fabric.nodes_per_leaf = 1;
  cluster.fabric.routers_per_group = 2;
  cluster.fabric.link = 2e6;
  cluster.fabric.global_link = 1e6;
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / 1e6)));
  cluster.fabric.global_link = 16e6;
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / 2e6)));
}

TEST_CASE("a ring over rails leaves a leaf on the trunks of all its rails") {
  // 2 nodes of 2 devices and 2 NICs of 2 bytes/us, a set of rail switches each, 4 : 1: a trunk of
  // each rail has 2 / 4 byte/us and carries half of an edge: 1 byte/us for the edge.
  Cluster cluster = plain_links(4, 2);
  cluster.fabric.kind = "rail-optimised";
  cluster.fabric.nodes_per_leaf = 1;
  cluster.fabric.oversubscription = 4;
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / 1e6)));
  cluster.fabric.nodes_per_leaf = 2;  // one set for both nodes: both NICs together
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / kB)));
}

TEST_CASE("a ring out of a pod passes the pod's trunk") {
  // 8 nodes, 2 to a leaf, 2 leaves to a pod; 4 x 2 / 2 = 4 bytes/us leave a leaf, 4 x 2 / 8 = 1 a
  // pod.
  Cluster cluster = plain_links(8, 1);
  cluster.fabric = {"fat-tree", 2, 2};
  cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.pod_oversubscription = 8;
  CHECK(all_gather(8, cluster) == exactly(7 * (kAlpha + kChunk / 1e6)));
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / kB)));  // within one pod
}

TEST_CASE("without peer access a node's messages share the memory of its sockets") {
  // 4 devices on 2 sockets: 2 edges begin on each and pass its memory twice: 4 / 8 us per byte.
  Cluster cluster = plain_links(4, 4);
  cluster.intra.kind = "pcie";
  cluster.p2p = false;
  cluster.host = {2, 8e6, 16e6};
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk * 4 / 8e6)));
  cluster.host.link = 1e6;  // one edge goes from socket to socket each way
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / 1e6)));
  cluster.p2p = true;  // memory is left out, the link between the sockets is not
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk / 1e6)));
  // One socket, 4 edges: 8 / 8 us per byte.
  cluster.p2p = false;
  cluster.host = {1, 8e6, 0};
  CHECK(all_gather(4, cluster) == exactly(3 * (kAlpha + kChunk * 8 / 8e6)));
}

TEST_CASE("switches that add up halve what an all-reduce sends") {
  // n = 4: 2 alpha + 5/4 S / B.
  Cluster cluster = plain_links(4, 4);
  cluster.intra.in_switch = cluster.intra.collective;
  const double s = 4 * kChunk;
  CHECK(all_reduce(4, cluster, "nvls") == exactly(2 * kAlpha + 1.25 * s / kB));
  // Where they cannot, the ring: 6 alpha + 3/2 S / B.
  cluster.intra.in_switch.reset();
  CHECK(all_reduce(4, cluster, "nvls") == exactly(6 * kAlpha + 1.5 * s / kB));
}

TEST_CASE("a double tree takes the logarithm of the nodes and a ring's bytes") {
  // 4 nodes of 2: 2 (1 + 2) alpha + 2 * 7/8 S / B, B = 4 inside and between.
  Cluster cluster = plain_links(8, 2);
  const double s = 8 * kChunk;
  CHECK(all_reduce(8, cluster, "double-tree") == exactly(6 * kAlpha + 1.75 * s / kB));
  // NVLS in the nodes: 2 alpha there, 2 * 2 between; 3/2 S inside beside 3/2 S through the NICs.
  cluster.intra.in_switch = cluster.intra.collective;
  CHECK(all_reduce(8, cluster, "nvls-tree") == exactly(6 * kAlpha + 1.5 * s / kB));
  // Switches between the nodes that add up too: one level; S through the NICs hides behind 3/2 S
  // inside.
  CHECK(all_reduce(8, cluster, "sharp") == exactly(4 * kAlpha + 1.5 * s / kB));
  cluster.inter.bandwidth = 2e6;  // now the NICs are slower
  CHECK(all_reduce(8, cluster, "sharp") == exactly(4 * kAlpha + s / 2e6));
}

TEST_CASE("every algorithm takes its closed form on every fabric") {
  // Four nodes of two devices: members share links between the nodes in every round but the ring's.
  Cluster cluster = plain_links(8, 2);
  cluster.fabric.nodes_per_leaf = 1;
  cluster.fabric.kind = GENERATE("torus", "dragonfly", "rail-optimised", "fat-tree");
  cluster.fabric.dimensions = {2, 2};
  cluster.fabric.routers_per_group = cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.link = 1e6;
  cluster.fabric.global_link = 0.5e6;
  cluster.fabric.oversubscription = cluster.fabric.pod_oversubscription = 3;
  const std::string algorithm =
      GENERATE("ring", "tree", "halving-doubling", "hierarchical", "double-tree");
  CAPTURE(cluster.fabric.kind, algorithm);
  CHECK(all_reduce(8, cluster, algorithm) > 0);
}

TEST_CASE("an all-to-all takes at most the worst of its rounds every time") {
  Cluster cluster = plain_links(8, 2);
  cluster.fabric.nodes_per_leaf = 1;
  cluster.fabric.kind = GENERATE("torus", "dragonfly", "rail-optimised", "fat-tree");
  cluster.fabric.dimensions = {2, 2};
  cluster.fabric.routers_per_group = cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.link = 1e6;
  cluster.fabric.global_link = 0.5e6;
  cluster.fabric.oversubscription = cluster.fabric.pod_oversubscription = 3;
  const Program program = collective("all_to_all", 8, 8 * kChunk, 8 * kChunk);
  const Costs costs = zero_costs(program, cluster);
  const Seconds analytic = run(program, costs).period;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  CHECK(NetworkExecutor(Fidelity::kFluid).run(jobs, costs, RunOptions{}).period ==
        exactly(analytic));
  // Step by step, members that have little to share are ahead of the others.
  CHECK(NetworkExecutor(Fidelity::kStep).run(jobs, costs, RunOptions{}).period <=
        analytic * (1 + 1e-9));
}

TEST_CASE("transfers of a pipeline that never meet take as long in all executors") {
  // One microbatch: each transfer is alone. The norm's ring of four bytes has steps of less than a
  // nanosecond, which SimGrid runs into one another: 4 ns of margin; a transfer takes microseconds.
  const std::string fabric =
      GENERATE("{kind: torus, dimensions: [2, 2], link: 3 GB/s}",
               "{kind: dragonfly, leaf: 1 nodes, group: 2, link: 3 GB/s, global_link: 2 GB/s}",
               "{kind: rail-optimised, leaf: 1 nodes, oversubscription: 8}",
               "{kind: fat-tree, leaf: 1 nodes, oversubscription: 2, pod: 2, "
               "pod_oversubscription: 3}");
  const std::string node = GENERATE("intra: {kind: nvlink, bandwidth: 100 GB/s}",
                                    "p2p: off, host: {sockets: 2, memory: 20 GB/s, link: 5 GB/s}, "
                                    "intra: {kind: pcie, bandwidth: 20 GB/s}");
  CAPTURE(fabric, node);
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 8, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n"
      "cluster: {device: a100-sxm-40g, nodes: 4, devices_per_node: 2, inter: {kind: infiniband, "
      "bandwidth: 25 GB/s}, "
      "collectives: {all_reduce: ring}, fabric: " +
      fabric + ", " + node +
      "}\nparallel: {pipeline: 8, placement: TPD}\ntraining: {global_batch: 1, clip_norm: 0}\n");
  const Program program = compiled_program(prepared);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const Trace analytic = run(program, costs);
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    const std::array<Job, 1> jobs = {Job{&program, 0}};
    const Seconds period = NetworkExecutor(fidelity).run(jobs, costs, RunOptions{}).period;
    CHECK(period == Approx(analytic.period).epsilon(1e-9).margin(4e-9));
  }
}

}  // namespace trainyard::fabrics_test
