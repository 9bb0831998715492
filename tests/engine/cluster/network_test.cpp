// Which links lie between two devices, counted by hand on small clusters.
#include "engine/cluster/network.h"

#include <array>
#include <catch2/catch.hpp>

namespace trainyard {

namespace {

/// Nodes of 4 devices on NVSwitch with 2 NICs, 2 nodes to a leaf.
Cluster two_leaves() {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.num_nodes = 4;
  cluster.num_devices = 16;
  cluster.intra.kind = "nvswitch";
  cluster.intra.bandwidth = 300;
  cluster.inter.kind = "infiniband";
  cluster.inter.bandwidth = 100;
  cluster.nics = 2;
  cluster.fabric = {"fat-tree", 2, 4};
  return cluster;
}

std::string names(const Network& network, const std::vector<LinkUse>& uses) {
  std::string text;
  for (const LinkUse& use : uses) {
    text += (text.empty() ? "" : ", ") + network.name(use.link);
    if (use.times != 1) text += " x" + std::to_string(use.times);
  }
  return text;
}

}  // namespace

TEST_CASE("a route leaves over ports, NICs and trunks in one direction and enters in the other") {
  const Cluster cluster = two_leaves();
  const Network network(cluster);
  CHECK(names(network, network.route(0, 0)) == "");
  CHECK(names(network, network.route(0, 3)) == "device 0 nvswitch out, device 3 nvswitch in");
  // Devices 2 and 3 of a node share NIC 1; device 5 is next to NIC 0 of node 1. Both are on leaf 0.
  CHECK(names(network, network.route(3, 5)) == "node 0 infiniband 1 out, node 1 infiniband 0 in");
  CHECK(names(network, network.route(5, 3)) == "node 1 infiniband 0 out, node 0 infiniband 1 in");
  CHECK(names(network, network.route(3, 12)) ==
        "node 0 infiniband 1 out, leaf 0 trunk up, leaf 1 trunk down, node 3 infiniband 0 in");
}

TEST_CASE("links are as wide as the cluster says") {
  const Cluster cluster = two_leaves();
  const Network network(cluster);
  const auto across = network.route(0, 8);
  CHECK(network.capacity(network.route(0, 1)[0].link) == 300);
  CHECK(network.capacity(across[0].link) == 50);   // a node's 100 over 2 NICs
  CHECK(network.capacity(across[1].link) == 50);   // 2 nodes x 100 / 4
  CHECK(network.owner(network.route(2, 1)[0].link) == 2);
  CHECK(network.owner(across[0].link) == -1);      // two devices share the NIC
}

TEST_CASE("without oversubscription the trunks hold nothing up") {
  Cluster cluster = two_leaves();
  cluster.fabric.oversubscription = 1;
  const Network network(cluster);
  CHECK(names(network, network.route(0, 15)) == "node 0 infiniband 0 out, node 3 infiniband 1 in");
}

TEST_CASE("devices behind different PCIe switches meet at the switches' uplinks") {
  Cluster cluster = two_leaves();
  cluster.intra.kind = "pcie";
  cluster.pcie = {2, 20};
  cluster.nics = 1;  // behind switch 0
  const Network network(cluster);
  CHECK(names(network, network.route(0, 1)) == "device 0 pcie out, device 1 pcie in");
  CHECK(names(network, network.route(1, 2)) ==
        "device 1 pcie out, node 0 PCIe switch 0 out, node 0 PCIe switch 1 in, device 2 pcie in");
  // Traffic to a NIC passes the device's slot, and the uplinks where the NIC hangs from the other switch.
  CHECK(names(network, network.route(3, 4)) ==
        "device 3 pcie out, node 0 PCIe switch 1 out, node 0 PCIe switch 0 in, node 0 infiniband 0 out, "
        "node 1 infiniband 0 in, device 4 pcie in");
}

TEST_CASE("a ring across nodes is spread over the NICs of its members") {
  const Cluster cluster = two_leaves();
  const Network network(cluster);
  // Devices 0 to 3 and 4 to 7: both NICs of each node carry half of the edge between the nodes, so for 2
  // bytes on each edge a NIC carries 1 and a port 2.
  const std::array<std::int64_t, 8> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<GroupEdge> ring;
  for (std::int32_t i = 0; i < 8; ++i) ring.push_back({i, (i + 1) % 8});
  const auto uses = network.uses(devices, ring, true);
  CHECK(uses.unit == 2);
  CHECK(names(network, uses.links) ==
        "device 0 nvswitch out x2, device 1 nvswitch out x2, device 1 nvswitch in x2, "
        "device 2 nvswitch out x2, device 2 nvswitch in x2, device 3 nvswitch in x2, "
        "device 4 nvswitch out x2, device 5 nvswitch out x2, device 5 nvswitch in x2, "
        "device 6 nvswitch out x2, device 6 nvswitch in x2, device 7 nvswitch in x2, "
        "node 0 infiniband 0 out, node 0 infiniband 0 in, node 0 infiniband 1 out, node 0 infiniband 1 in, "
        "node 1 infiniband 0 out, node 1 infiniband 0 in, node 1 infiniband 1 out, node 1 infiniband 1 in");
  // One member on each node: one NIC, and each link as often as the other.
  const std::array<std::int64_t, 2> apart = {0, 4};
  const std::vector<GroupEdge> both = {{0, 1}, {1, 0}};
  CHECK(network.uses(apart, both, true).unit == 1);
}

}  // namespace trainyard
