// Every collective's closed form, from both executors with contention: start-up 0, constant
// bandwidth. alpha = 3 us per step, B = 4 bytes/us one way, S bytes, n ranks. With reuse off every
// message of it goes through SimGrid; with it on, nothing does, since nobody else is there.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/cost/collective_time.h"
#include "sim/network_executor.h"
#include "tests/support/timing.h"

namespace trainyard::collectives_test {

namespace {

constexpr double kAlpha = 3e-6, kB = 4e6;
constexpr double kMicro = 1e-6;

Approx exactly(double value) { return Approx(value).epsilon(1e-9).margin(0); }

/// One collective per step over n ranks; a step is nothing else.
Program collective(const std::string& kind, int n, int bytes_in, int bytes_out) {
  return verified("program 2\nmesh pp=1:stages dp=1 tp=" + std::to_string(n) +
                  "\nmicrobatches 1\ngroup tp[tp]\nvalue x uint8[" + std::to_string(bytes_in) +
                  "] step activation\nvalue y uint8[" + std::to_string(bytes_out) +
                  "] step activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n  tp " + kind +
                  ":tp x -> y\n  main free x y\nclass pp:0\n  0STEP\nplacement pp:1 dp:1 tp:1\n");
}

/// n devices: all in one node, or one on each node.
Cluster plain_links(int n, bool one_node) {
  Cluster cluster = free_links(n, one_node ? n : 1);
  for (LinkClass* link : {&cluster.intra, &cluster.inter}) {
    link->bandwidth = kB;
    link->collective.latency = link->point_to_point.latency = kAlpha;
  }
  return cluster;
}

Seconds period(const Program& program, const Cluster& cluster, Fidelity fidelity, bool reuse) {
  RunOptions options;
  options.reuse = reuse;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  return NetworkExecutor(fidelity).run(jobs, zero_costs(program, cluster), options).period;
}

}  // namespace

TEST_CASE("closed forms of collectives hold in fluid and step") {
  const auto fidelity = GENERATE(Fidelity::kFluid, Fidelity::kStep);
  const bool reuse = GENERATE(true, false);
  const bool one_node = GENERATE(true, false);
  const int n = GENERATE(2, 3, 4, 8);
  CAPTURE(static_cast<int>(fidelity), reuse, one_node, n);
  const Cluster cluster = plain_links(n, one_node);
  const int chunk = 16, s = n * chunk;
  const double once = (n - 1) * kAlpha + (n - 1.0) / n * s / kB;
  const auto time = [&](const std::string& kind, int in, int out, const Cluster& on) {
    return period(collective(kind, n, in, out), on, fidelity, reuse);
  };
  const auto with = [&](const std::string& algorithm) {
    Cluster changed = cluster;
    changed.collectives["all_reduce"] = algorithm;
    return changed;
  };
  CHECK(time("all_gather", chunk, s, cluster) == exactly(once));
  CHECK(time("reduce_scatter", s, chunk, cluster) == exactly(once));
  CHECK(time("all_reduce", s, s, with("ring")) == exactly(2 * once));
  // Up ceil(log2 n) levels and down again, the whole buffer each time.
  const double levels = std::ceil(std::log2(n));
  CHECK(time("all_reduce", s, s, with("tree")) == exactly(2 * levels * (kAlpha + s / kB)));
  // Halves: S/2 + S/4 + ... = (n-1)/n S, and back. For 3 ranks the ring.
  const bool power = (n & (n - 1)) == 0;
  const double halves = 2 * std::log2(n) * kAlpha + 2 * (n - 1.0) / n * s / kB;
  CHECK(time("all_reduce", s, s, with("halving-doubling")) == exactly(power ? halves : 2 * once));
  // To everybody 1/n of what is sent, one after the other.
  CHECK(time("all_to_all", s, s, cluster) == exactly((n - 1) * (kAlpha + s / (n * kB))));
  // A pipelined ring of c pieces, the c that is fastest.
  const auto pipelined = [&](double c) { return (n - 2 + c) * (kAlpha + s / (c * kB)); };
  double fastest = pipelined(1);
  for (int c = 2; c <= 1024; ++c) fastest = std::min(fastest, pipelined(c));
  // SimGrid rounds work to 1e-5 bytes, and pieces have fractions.
  CHECK(time("broadcast", s, s, cluster) == Approx(fastest).epsilon(1e-6).margin(0));
}

TEST_CASE(
    "a hierarchical all-reduce reduces in the nodes, rings between them, and gathers in the "
    "nodes") {
  const auto fidelity = GENERATE(Fidelity::kFluid, Fidelity::kStep);
  const bool reuse = GENERATE(true, false);
  // 3 nodes of 4: S = 96 on 4 bytes/us inside; between nodes a node has 4 x 2 bytes/us, 2 for each
  // NIC. Inside 3 steps of 24 bytes: 3 * 3 + 72/4 = 27, twice. Between: 2 * 2 steps of 8 bytes at 2
  // bytes/us and 5 us each: 4 * 5 + 32/2 = 36.
  Cluster cluster = free_links(12, 4);
  cluster.intra.bandwidth = 4e6;
  cluster.intra.collective.latency = 3e-6;
  cluster.inter.bandwidth = 8e6;
  cluster.inter.collective.latency = 5e-6;
  cluster.collectives["all_reduce"] = "hierarchical";
  CHECK(period(collective("all_reduce", 12, 96, 96), cluster, fidelity, reuse) ==
        exactly((27 + 36 + 27) * kMicro));
}

TEST_CASE("auto takes the fastest algorithm of links without a fitted curve") {
  // 8 ranks, alpha = 3 us: 2 * 7 steps of a ring, 2 * 3 of a tree or of halves. One byte in each of
  // 8 parts: halves take 18 + 2 * 7/8 * 8 / 4 = 21.5, a tree 6 * (3 + 2) = 30, a ring 42 + 3.5.
  Cluster cluster = plain_links(8, true);
  const Program program = collective("all_reduce", 8, 8, 8);
  cluster.collectives["all_reduce"] = "auto";
  CHECK(period(program, cluster, Fidelity::kFluid, true) == exactly(21.5 * kMicro));
  // A fitted curve is the library's own choice.
  cluster.intra.collective.startup = 1e-6;
  CHECK(period(program, cluster, Fidelity::kFluid, true) == exactly((1 + 42 + 3.5) * kMicro));
}

TEST_CASE("step equals fluid with alpha 0 on a symmetric ring, reuse or not") {
  const int n = GENERATE(2, 5, 16);
  Cluster cluster = plain_links(n, false);
  cluster.inter.collective.latency = 0;
  const Program program = collective("all_reduce", n, 48 * n, 48 * n);
  // 2(n-1)/n S/B.
  const double expected = 2 * (n - 1) * 48 / kB;
  CHECK(period(program, cluster, Fidelity::kFluid, false) == exactly(expected));
  CHECK(period(program, cluster, Fidelity::kStep, false) == exactly(expected));
}

TEST_CASE("k rings share an oversubscribed trunk") {
  const auto fidelity = GENERATE(Fidelity::kFluid, Fidelity::kStep);
  const bool fold = GENERATE(true, false);
  const bool reuse = GENERATE(true, false);
  const int k = GENERATE(2, 4);
  const double over = GENERATE(1.0, 2.0, 4.0);
  CAPTURE(static_cast<int>(fidelity), fold, reuse, k, over);
  // 2k nodes of one device, k to a leaf; k pairs, one end on each leaf: rank = k tp + dp. A trunk
  // carries k B / over, so each ring has B / over: 2 (alpha + S/2 over/B).
  Cluster cluster = plain_links(2 * k, false);
  cluster.fabric = {"fat-tree", k, over};
  const Program program = verified("program 2\nmesh pp=1:stages dp=" + std::to_string(k) +
                                   " tp=2\nmicrobatches 1\ngroup tp[tp]\n"
                                   "value x uint8[80] step activation\nvalue y uint8[80] step "
                                   "activation\nsegment 0STEP() stage:0 C\n  main zero -> x\n"
                                   "  tp all_reduce:tp x -> y\n  main free x y\nclass pp:0\n  "
                                   "0STEP\nplacement pp:1 dp:1 tp:" +
                                   std::to_string(k) + "\n");
  RunOptions options;
  options.fold = fold;
  options.reuse = reuse;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  const Trace trace = NetworkExecutor(fidelity).run(jobs, zero_costs(program, cluster), options);
  CHECK(trace.period == exactly(2 * (kAlpha + 40 * over / kB)));
  // Each direction of a NIC carries the whole buffer once: 2 (n-1)/n S = 80 bytes.
  for (const LinkLoad& link : trace.links) {
    const bool trunk = link.name.find("trunk") != std::string::npos;
    CHECK(link.bytes == exactly(trunk ? 80.0 * k : 80.0));
    CHECK(link.busy_fraction == exactly(link.bytes / (link.capacity * trace.period)));
  }
}

}  // namespace trainyard::collectives_test
