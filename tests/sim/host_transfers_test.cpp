// How long pipeline transfers take on each of their ways, derived from bandwidths, in every
// executor; and who gets in whose way in the memory of a host.
#include <catch2/catch.hpp>
#include <string>

#include "sim/network_executor.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::host_transfers_test {

namespace {

/// Two stages and one microbatch: 4 tokens x 8 wide, fp32, so that 128 bytes go forward and 128
/// back.
Program two_stages(const std::string& cluster, const std::string& buffer,
                   const std::string& data = "1") {
  return compiled_program(
      prepare_text("model: {family: gpt, layers: 2, hidden: 8, heads: 2, vocab: 16, seq_len: 4, "
                   "tied_embeddings: false}\n"
                   "cluster: {device: a100-sxm-80g, host: {memory: 100 GB/s}, " +
                   cluster +
                   "}\n"
                   "parallel: {pipeline: 2, data: " +
                   data + ", d2d_buffer: " + buffer +
                   "}\n"
                   "training: {global_batch: " +
                   data + ", microbatch: 1, precision: fp32, optimizer: sgd, clip_norm: 0}\n"));
}

const std::string kInNode =
    "devices: 2, devices_per_node: 2, intra: {kind: nvswitch, bandwidth: 300 GB/s}";
const std::string kBetween =
    "devices: 2, devices_per_node: 1, inter: {kind: infiniband, bandwidth: 25 GB/s}";
const std::string kEthernet =
    "devices: 2, devices_per_node: 1, inter: {kind: ethernet, bandwidth: 5 GB/s}";

/// Kernels take no time, but for copies on a device: 3 s. Copies to the host: 5 s and 2 bytes/s.
Costs costs_on(const Program& program, const Cluster& cluster) {
  Costs costs = zero_costs(program, cluster);
  costs.host_link.bandwidth = 2;
  costs.host_link.latency = 5;
  for (const SegmentId s : program.segments.keys()) {
    for (std::size_t k = 0; k < program.segments[s].ops.size(); ++k) {
      if (program.segments[s].ops[k].kind == OpKind::kDeviceCopy) costs.ops[1.0][s][k].kernel = 3;
    }
  }
  return costs;
}

/// Inside a node 1 s and 1 byte/s; between nodes 10 s and 1 byte/s; 4 bytes/s in the memory of a
/// socket.
Cluster slow_hosts(std::int64_t per_node) {
  Cluster cluster = slow_links(2);
  cluster.devices_per_node = per_node;
  cluster.num_nodes = 2 / per_node;
  cluster.inter.bandwidth = 1;
  cluster.host.memory = 4;
  return cluster;
}

/// `transfers`: what a step takes but for its last part, the gradient norm: 4 bytes that both ranks
/// all-reduce, in two steps of latency + 2 bytes/(1 byte/s).
void check_step(const Program& program, const Cluster& cluster, Seconds transfers) {
  const Seconds period = transfers + 2 * ((cluster.num_nodes == 1 ? 1 : 10) + 2);
  const Costs costs = costs_on(program, cluster);
  const Job job{&program, 0};
  CHECK(run(program, costs).period == Approx(period).epsilon(1e-9));
  for (const Fidelity fidelity : {Fidelity::kFluid, Fidelity::kStep}) {
    for (const bool fold : {true, false}) {
      RunOptions options;
      options.fold = fold;
      if (fidelity == Fidelity::kStep && fold) continue;
      CAPTURE(static_cast<int>(fidelity), fold);
      CHECK(NetworkExecutor(fidelity).run({&job, 1}, costs, options).period ==
            Approx(period).epsilon(1e-9));
    }
  }
}

}  // namespace

TEST_CASE(
    "direct transfers take the link and a copy out of the buffer, between nodes one into it too") {
  // 1 + 128/1 s on NVLink and 3 s out of the slot, there and back.
  check_step(two_stages(kInNode, "1 KiB"), slow_hosts(2), 2 * (129 + 3));
  // 10 + 128/1 s over the network, and 3 s at either end.
  check_step(two_stages(kBetween, "1 KiB"), slow_hosts(1), 2 * (3 + 138 + 3));
}

TEST_CASE("host-staged transfers take two copies and the memory of a node, or its network") {
  // Copies: 5 + 128/2 s each. In a node the message is read and written: 1 + 128/(4/2) s.
  check_step(two_stages(kInNode, "100 B"), slow_hosts(2), 2 * (69 + 65 + 69));
  // On two sockets it is read in one and written in the other, over a link of 1 byte/s: 1 + 128/1
  // s.
  Cluster sockets = slow_hosts(2);
  sockets.host.sockets = 2;
  sockets.host.link = 1;
  check_step(two_stages(kInNode, "100 B"), sockets, 2 * (69 + 129 + 69));
  // Between nodes 10 + 128/1 s, or, where a host's memory is slower than the NIC, 10 + 128/0.5 s.
  check_step(two_stages(kEthernet, "1 KiB"), slow_hosts(1), 2 * (69 + 138 + 69));
  Cluster slow_memory = slow_hosts(1);
  slow_memory.host.memory = 0.5;
  check_step(two_stages(kEthernet, "1 KiB"), slow_memory, 2 * (69 + 266 + 69));
}

TEST_CASE("messages between hosts meet in the memory of their node, not on its NVLinks") {
  // Two replicas on one node: their messages pass the memory together, each in 1 + 128/(4/4) s
  // instead of 1 + 128/(4/2). Closed forms know it, because the replicas are alike. Gradients meet
  // nobody: data-parallel links take no time.
  const Program program =
      two_stages("devices: 4, devices_per_node: 4, intra: {kind: nvswitch, bandwidth: 300 GB/s}",
                 "100 B", "2");
  Cluster cluster = free_links(4, 4);
  cluster.intra.point_to_point.latency = 1;
  cluster.intra.kind = "nvswitch";
  cluster.host.memory = 4;
  const Costs costs = costs_on(program, cluster);
  const Job job{&program, 0};
  CHECK(run(program, costs).period == Approx(2 * (69 + 129 + 69)).epsilon(1e-9));
  const Trace shared = NetworkExecutor(Fidelity::kFluid).run({&job, 1}, costs, {});
  CHECK(shared.period == Approx(2 * (69 + 129 + 69)).epsilon(1e-9));
  double bytes = 0;
  for (const LinkLoad& link : shared.links) {
    if (link.name == "node 0 host memory 0") bytes = link.bytes;
  }
  // Two replicas, forward and back, each read and written.
  CHECK(bytes == Approx(2 * 2 * 2 * 128));
}

}  // namespace trainyard::host_transfers_test
