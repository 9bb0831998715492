// Which links lie between two devices, counted by hand on small clusters.
#include "engine/cluster/network.h"

#include <array>
#include <catch2/catch.hpp>

namespace trainyard::network_test {

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
  CHECK(network.capacity(across[0].link) == 50);  // a node's 100 over 2 NICs
  CHECK(network.capacity(across[1].link) == 50);  // 2 nodes x 100 / 4
  CHECK(network.owner(network.route(2, 1)[0].link) == 2);
  CHECK(network.owner(across[0].link) == -1);  // two devices share the NIC
}

TEST_CASE("the drives of a node are one link that is written and one that is read") {
  Cluster cluster = two_leaves();
  cluster.nvme = {7, 3, 2, {}};
  const Network network(cluster);
  CHECK(names(network, network.drive_route(5, true)) == "node 1 NVMe write");
  CHECK(names(network, network.drive_route(6, false)) == "node 1 NVMe read");
  const LinkId written = network.drive_route(5, true)[0].link;
  CHECK(network.capacity(written) == 2 * 3);
  CHECK(network.capacity(network.drive_route(5, false)[0].link) == 2 * 7);
  CHECK(network.owner(written) == -1);
  // Links of the fabric stand behind them, and carry what they did.
  CHECK(names(network, network.route(3, 12)) ==
        "node 0 infiniband 1 out, leaf 0 trunk up, leaf 1 trunk down, node 3 infiniband 0 in");
  CHECK(network.capacity(network.route(0, 8)[1].link) == 50);
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
  // Traffic to a NIC passes the device's slot, and the uplinks where the NIC hangs from the other
  // switch.
  CHECK(names(network, network.route(3, 4)) ==
        "device 3 pcie out, node 0 PCIe switch 1 out, node 0 PCIe switch 0 in, node 0 infiniband 0 "
        "out, "
        "node 1 infiniband 0 in, device 4 pcie in");
}

TEST_CASE("a message goes the short way round a torus, along x first") {
  Cluster cluster = two_leaves();
  cluster.devices_per_node = cluster.nics = 1;
  cluster.num_nodes = cluster.num_devices = 12;
  cluster.fabric = {};
  cluster.fabric.kind = "torus";
  cluster.fabric.dimensions = {4, 3};
  cluster.fabric.link = 7;
  const Network network(cluster);
  // 1 = (1, 0) to 7 = (3, 1): half way round x is upwards, then one up in y, at column 3.
  CHECK(names(network, network.route(1, 7)) ==
        "node 1 infiniband 0 out, node 1 torus x +, node 2 torus x +, node 3 torus y +, node 7 "
        "infiniband 0 in");
  // 0 = (0, 0) to 11 = (3, 2): both are one down.
  CHECK(names(network, network.route(0, 11)) ==
        "node 0 infiniband 0 out, node 0 torus x -, node 3 torus y -, node 11 infiniband 0 in");
  CHECK(network.capacity(network.route(1, 7)[1].link) == 7);
}

TEST_CASE("groups of a dragonfly are joined at the router that has the other's number") {
  Cluster cluster = two_leaves();
  cluster.devices_per_node = cluster.nics = 1;
  cluster.num_nodes = cluster.num_devices = 18;  // 3 groups of 3 routers of 2 nodes
  cluster.fabric = {};
  cluster.fabric.kind = "dragonfly";
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.routers_per_group = 3;
  cluster.fabric.link = 20;
  cluster.fabric.global_link = 30;
  const Network network(cluster);
  CHECK(names(network, network.route(0, 1)) ==
        "node 0 infiniband 0 out, node 1 infiniband 0 in");  // one router
  CHECK(names(network, network.route(0, 5)) ==
        "node 0 infiniband 0 out, group 0 router 0 to 2, node 5 infiniband 0 in");
  // From router 0 of group 0 to router 2 of group 1: out at router 1, in at router 0.
  const auto far = network.route(0, 11);
  CHECK(names(network, far) ==
        "node 0 infiniband 0 out, group 0 router 0 to 1, group 0 to group 1, group 1 router 0 to "
        "2, node 11 infiniband 0 in");
  CHECK(network.capacity(far[1].link) == 20);
  CHECK(network.capacity(far[2].link) == 30);
}

TEST_CASE("messages change rails over NVLink, else over the spines") {
  Cluster cluster = two_leaves();
  cluster.fabric = {"rail-optimised", 2, 4};
  const Network network(cluster);
  // Devices 0 and 1 are next to NIC 0, so both ends are on rail 0: through the trunks of its
  // leaves.
  CHECK(names(network, network.route(0, 8)) ==
        "node 0 infiniband 0 out, rail 0 leaf 0 trunk up, rail 0 leaf 1 trunk down, node 2 "
        "infiniband 0 in");
  CHECK(network.capacity(network.route(0, 8)[1].link) == 25);  // 2 nodes x 50 / 4
  CHECK(names(network, network.route(0, 4)) ==
        "node 0 infiniband 0 out, node 1 infiniband 0 in");  // one leaf
  // Device 3 to device 4: over NVLink to device 0, which is next to NIC 0.
  CHECK(names(network, network.route(3, 4)) ==
        "device 3 nvswitch out, device 0 nvswitch in, node 0 infiniband 0 out, node 1 infiniband 0 "
        "in");
  Cluster without = cluster;
  without.intra.kind = "pcie";
  const Network pcie(without);
  CHECK(names(pcie, pcie.route(3, 4)) ==
        "device 3 pcie out, node 0 infiniband 1 out, rail 1 leaf 0 trunk up, rail 0 leaf 0 trunk "
        "down, "
        "node 1 infiniband 0 in, device 4 pcie in");
}

TEST_CASE("pods of leaves meet over trunks of their own") {
  Cluster cluster = two_leaves();  // leaves of 2 nodes, 4 : 1
  cluster.num_nodes = 8;
  cluster.num_devices = 32;
  cluster.fabric.leaves_per_pod = 2;
  cluster.fabric.pod_oversubscription = 5;
  const Network network(cluster);
  const auto far = network.route(0, 16);  // node 0 to node 4
  CHECK(names(network, far) ==
        "node 0 infiniband 0 out, leaf 0 trunk up, pod 0 trunk up, pod 1 trunk down, leaf 2 trunk "
        "down, "
        "node 4 infiniband 0 in");
  CHECK(network.capacity(far[2].link) == 20);  // 4 nodes x 100 / 4 / 5
}

TEST_CASE("without peer access a message is written to and read from the memory of its socket") {
  Cluster cluster = two_leaves();
  cluster.intra.kind = "pcie";
  cluster.p2p = false;
  cluster.host = {2, 90, 16};
  const Network network(cluster);
  CHECK(names(network, network.route(0, 1)) ==
        "device 0 pcie out, node 0 host memory 0 x2, device 1 pcie in");
  CHECK(names(network, network.route(1, 2)) ==
        "device 1 pcie out, node 0 host memory 0 x2, node 0 socket 0 out, node 0 socket 1 in, "
        "device 2 pcie in");
  // To another node: written by the device and read by the NIC, and again on the other side.
  CHECK(names(network, network.route(3, 5)) ==
        "device 3 pcie out, node 0 host memory 1 x2, node 0 infiniband 1 out, node 1 infiniband 0 "
        "in, "
        "node 1 host memory 0 x2, device 5 pcie in");
  CHECK(network.capacity(network.route(0, 1)[1].link) == 90);
}

TEST_CASE("messages between hosts pass the memory of either, and no port of a device") {
  Cluster cluster = two_leaves();
  cluster.host = {2, 90, 16};
  const Network network(cluster);
  CHECK(names(network, network.route_by_hosts(0, 1)) == "node 0 host memory 0 x2");
  CHECK(names(network, network.route_by_hosts(1, 2)) ==
        "node 0 host memory 0, node 0 socket 0 out, node 0 socket 1 in, node 0 host memory 1");
  CHECK(names(network, network.route_by_hosts(3, 5)) ==
        "node 0 host memory 1, node 0 infiniband 1 out, node 1 infiniband 0 in, node 1 host memory "
        "0");
  // Over the PCIe switch in front of the NIC: down to it, and up from the other's.
  cluster.pcie = {2, 30};
  const Network switches(cluster);
  CHECK(names(switches, switches.route_by_hosts(3, 5)) ==
        "node 0 host memory 1, node 0 PCIe switch 1 in, node 0 infiniband 1 out, node 1 infiniband "
        "0 in, "
        "node 1 PCIe switch 0 out, node 1 host memory 0");
  // Where its bandwidth is not said, memory holds nothing up.
  cluster.host.memory = 0;
  const Network unknown(cluster);
  CHECK(names(unknown, unknown.route_by_hosts(0, 1)) == "");
}

TEST_CASE("a ring across nodes is spread over the NICs of its members") {
  const Cluster cluster = two_leaves();
  const Network network(cluster);
  // Devices 0 to 3 and 4 to 7, two rings at once, each with half of the bytes: the one over NIC 0
  // leaves node 0 at device 0 and goes 1, 2, 3, 0; the one over NIC 1 leaves at device 2 and goes
  // 3, 0, 1, 2. For 2 bytes on each edge a NIC carries 1; device 0 sends 1 inside the node (in the
  // second ring) and receives 2.
  const std::array<std::int64_t, 8> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<GroupEdge> ring;
  for (std::int32_t i = 0; i < 8; ++i) ring.push_back({i, (i + 1) % 8});
  const auto uses = network.uses(devices, ring, true);
  CHECK(uses.unit == 2);
  CHECK(names(network, uses.links) ==
        "device 0 nvswitch out, device 0 nvswitch in x2, device 1 nvswitch out x2, device 1 "
        "nvswitch in, "
        "device 2 nvswitch out, device 2 nvswitch in x2, device 3 nvswitch out x2, device 3 "
        "nvswitch in, "
        "device 4 nvswitch out, device 4 nvswitch in x2, device 5 nvswitch out x2, device 5 "
        "nvswitch in, "
        "device 6 nvswitch out, device 6 nvswitch in x2, device 7 nvswitch out x2, device 7 "
        "nvswitch in, "
        "node 0 infiniband 0 out, node 0 infiniband 0 in, node 0 infiniband 1 out, node 0 "
        "infiniband 1 in, "
        "node 1 infiniband 0 out, node 1 infiniband 0 in, node 1 infiniband 1 out, node 1 "
        "infiniband 1 in");
  // One member on each node: one NIC, and each link as often as the other.
  const std::array<std::int64_t, 2> apart = {0, 4};
  const std::vector<GroupEdge> both = {{0, 1}, {1, 0}};
  CHECK(network.uses(apart, both, true).unit == 1);
}

TEST_CASE("all pairs of a group load the NIC beside which most of it lies, or the fullest node's") {
  Cluster cluster = two_leaves();
  const Network network(cluster);
  const auto loads = [](const Network& of, std::vector<std::int64_t> devices) {
    return of.pair_loads(devices);
  };
  // 4 + 4 devices: 2 beside each NIC send 4 messages out each.
  CHECK(loads(network, {0, 1, 2, 3, 4, 5, 6, 7}).nic_messages == 2 * 4);
  // 4 + 2 beside one NIC: 2 x 2 messages over a NIC of the one, 2 x 4 over that of the other.
  CHECK(loads(network, {0, 1, 2, 3, 4, 5}).nic_messages == 2 * 4);
  CHECK(loads(network, {0, 1, 2, 3, 4, 5}).most_per_node == 4);
  CHECK(loads(network, {0, 1, 2, 3, 4, 6}).nic_messages == 4);
  // 3 + 1: the one sends to 3, over a NIC of its own.
  CHECK(loads(network, {0, 1, 2, 4}).nic_messages == 3);
  // 4 nodes of 2 beside one NIC, 2 nodes to a leaf: 2 x 6 messages over a NIC, 4 x 4 over a trunk
  // of 50.
  CHECK(loads(network, {0, 1, 4, 5, 8, 9, 12, 13}).nic_messages == 2 * 6);
  CHECK(loads(network, {0, 1, 4, 5, 8, 9, 12, 13}).fabric == 16.0 / 50);
  // 4 + 1 + 1: 5 messages leave the one. On rails a message leaves over the NIC of its receiver's
  // number: both receivers are beside NIC 0, and 4 devices send to them over that.
  CHECK(loads(network, {0, 1, 2, 3, 4, 8}).nic_messages == 5);
  cluster.fabric.kind = "rail-optimised";
  cluster.fabric.oversubscription = 1;
  const Network rails(cluster);
  CHECK(loads(rails, {0, 1, 2, 3, 4, 8}).nic_messages == 4 * 2);
}

}  // namespace trainyard::network_test
