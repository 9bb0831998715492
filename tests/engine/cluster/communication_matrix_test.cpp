// Hierarchical communication matrices: those of ATP's Fig. 7, and each kind of level by hand.
#include "engine/cluster/communication_matrix.h"

#include <catch2/catch.hpp>

namespace trainyard::communication_matrix_test {

namespace {

Cluster cluster_of(std::int64_t nodes, std::int64_t per_node, const std::string& intra,
                   BytesPerSecond inside, BytesPerSecond outside) {
  Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.devices_per_node = per_node;
  cluster.num_devices = nodes * per_node;
  cluster.intra.kind = intra;
  cluster.intra.bandwidth = inside;
  cluster.inter.kind = "infiniband";
  cluster.inter.bandwidth = outside;
  cluster.fabric.kind = "single-switch";
  return cluster;
}

/// "node 4: 25/25, device 4: 200/600": units, between two and out of one in GB/s.
std::string text(const Cluster& cluster) {
  const auto matrix = communication_matrix(cluster);
  if (const auto* reason = std::get_if<Infeasible>(&matrix)) return reason->reason;
  std::string out;
  for (const CommunicationLevel& level : std::get<CommunicationMatrix>(matrix)) {
    const auto number = [](double value) {
      return std::to_string(static_cast<std::int64_t>(value / kGB));
    };
    out += (out.empty() ? "" : ", ") + level.unit + " " + std::to_string(level.units) + ": " +
           number(level.between) + "/" + number(level.group);
  }
  return out;
}

}  // namespace

TEST_CASE("the matrices of ATP's Fig. 7") {
  CHECK(text(cluster_of(4, 4, "nvlink", 600 * kGB, 25 * kGB)) ==
        "node 4: 25/25, device 4: 200/600");
  Cluster torus = cluster_of(16, 1, "none", 0, 100 * kGB);
  torus.fabric.kind = "torus";
  torus.fabric.dimensions = {4, 4};
  torus.fabric.link = 25 * kGB;
  CHECK(text(torus) == "slice of the torus along y 4: 100/200, node 4: 25/50");
  // One row of it, and one node, are whole; half of a row, or two rows, are not.
  torus.num_nodes = torus.num_devices = 4;
  CHECK(text(torus) == "node 4: 25/50");
  torus.num_nodes = torus.num_devices = 1;
  CHECK(text(torus).empty());
  for (const std::int64_t nodes : {2, 8}) {
    torus.num_nodes = torus.num_devices = nodes;
    CHECK(std::get<Infeasible>(communication_matrix(torus))
              .reason.find("fill a part of the torus's rings") != std::string::npos);
  }
  torus.num_nodes = torus.num_devices = 16;
  const auto matrix = std::get<CommunicationMatrix>(communication_matrix(torus));
  CHECK(point_to_point(matrix[1]) == std::vector<std::vector<double>>{{0, 25 * kGB, 0, 25 * kGB},
                                                                      {25 * kGB, 0, 25 * kGB, 0},
                                                                      {0, 25 * kGB, 0, 25 * kGB},
                                                                      {25 * kGB, 0, 25 * kGB, 0}});
}

TEST_CASE("levels are where something holds traffic up") {
  CHECK(text(cluster_of(1, 8, "nvswitch", 300 * kGB, 0)) == "device 8: 300/300");
  CHECK(text(cluster_of(1, 1, "nvswitch", 300 * kGB, 0)) == "");
  // 8 nodes of 200 GB/s under leaves of 4 that let a half through.
  Cluster tree = cluster_of(8, 2, "nvswitch", 300 * kGB, 200 * kGB);
  tree.fabric = {"fat-tree", 4, 2};
  CHECK(text(tree) == "leaf 2: 400/400, node 4: 200/200, device 2: 300/300");
  tree.fabric.oversubscription = 1;
  CHECK(text(tree) == "node 8: 200/200, device 2: 300/300");
  // 3 groups of 2 routers of 2 nodes: a group has a link to each of the 2 others.
  Cluster dragonfly = cluster_of(12, 1, "none", 0, 100 * kGB);
  dragonfly.fabric.kind = "dragonfly";
  dragonfly.fabric.nodes_per_leaf = 2;
  dragonfly.fabric.routers_per_group = 2;
  dragonfly.fabric.link = 50 * kGB;
  dragonfly.fabric.global_link = 30 * kGB;
  CHECK(text(dragonfly) == "group 3: 30/60, router 2: 50/50, node 2: 100/100");
}

TEST_CASE("levels inside a node: sockets, PCIe switches, bridged pairs") {
  Cluster node = cluster_of(1, 8, "pcie", 32 * kGB, 0);
  node.host.sockets = 2;
  node.host.link = 16 * kGB;
  node.pcie.switches = 4;
  node.pcie.uplink = 20 * kGB;
  CHECK(text(node) == "socket 2: 16/16, PCIe switch 2: 20/20, device 2: 32/32");
  Cluster pairs = cluster_of(1, 4, "nvlink-bridge", 300 * kGB, 0);
  pairs.intra.collective.by_ranks[2].efficiency = 0.6;
  pairs.intra.collective.by_ranks[3].efficiency = 0.05;
  pairs.intra.collective.by_ranks[3].efficiency_beyond = {{1 << 20, 0.1}};
  CHECK(text(pairs) == "bridged pair 2: 30/30, device 2: 300/300");
}

TEST_CASE("a cube mesh joins every device by six links, two of them to one other at most") {
  const auto matrix = std::get<CommunicationMatrix>(
      communication_matrix(cluster_of(1, 8, "nvlink-cube-mesh", 150 * kGB, 0)));
  REQUIRE(matrix.size() == 1);
  CHECK(matrix[0].between == 50 * kGB);
  const auto between = point_to_point(matrix[0]);
  for (std::size_t a = 0; a < 8; ++a) {
    double all = 0;
    for (std::size_t b = 0; b < 8; ++b) {
      CHECK(between[a][b] == between[b][a]);
      all += between[a][b];
    }
    CHECK(all == Approx(matrix[0].group));
  }
}

TEST_CASE("units that differ have no matrix") {
  Cluster part = cluster_of(2, 4, "nvswitch", 300 * kGB, 25 * kGB);
  part.num_devices = 7;
  CHECK(text(part) ==
        "the last of 2 nodes is part-filled, and its links are shared by fewer devices");
  Cluster tree = cluster_of(6, 1, "none", 0, 100 * kGB);
  tree.fabric = {"fat-tree", 4, 2};
  CHECK(text(tree) == "units of 4 devices (leaf) do not divide 6");
}

}  // namespace trainyard::communication_matrix_test
