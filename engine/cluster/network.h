// A cluster as a graph: every link that a transfer can be held up by, one entry per direction, and
// which of them lie between two devices.
//
//   device --(port)-- switch or mesh of the node --(port)-- device            inside a node
//   device --(PCIe uplink)-- NIC -- leaf --(trunk)-- spine -- leaf -- NIC -- device
//
// Ports: the NVLinks (or the PCIe slot) of one device. NICs: each belongs to the devices next to it,
// and to the PCIe switch that they share. Trunk: all uplinks of one leaf switch together, as if traffic
// were spread over them evenly; a fabric that is not oversubscribed has none, since what its NICs can
// send its trunks can carry. Switches themselves never hold anything up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"

namespace trainyard {

using LinkId = std::int32_t;

/// A link, and how often what is sent passes it.
struct LinkUse {
  LinkId link = -1;
  std::int64_t times = 1;
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

/// One edge of a collective: member `from` sends to member `to` (indices into the group).
struct GroupEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

/// Links are numbered, not stored: a cluster of 2^20 devices costs nothing until a route is asked for.
class Network {
 public:
  explicit Network(const Cluster& cluster);

  LinkId num_links() const { return first_trunk_ + 2 * num_leaves_; }
  BytesPerSecond capacity(LinkId link) const;  // nominal, one direction
  std::string name(LinkId link) const;         // "device 12 nvswitch out", "leaf 2 trunk up"
  /// The only device whose traffic passes this link; -1: several.
  std::int64_t owner(LinkId link) const;

  std::int64_t devices_per_node() const { return per_node_; }
  std::int64_t node(std::int64_t device) const { return device / per_node_; }
  std::int64_t leaf(std::int64_t device) const { return num_leaves_ == 0 ? 0 : node(device) / nodes_per_leaf_; }
  std::int64_t nic(std::int64_t device) const;  // number within the node

  /// Links from device `from` to device `to`, in order, each once. Empty for from = to.
  std::vector<LinkUse> route(std::int64_t from, std::int64_t to) const;

  /// Links of all `edges` of a group together, ascending, and how often each is passed while every edge
  /// carries `unit` bytes. Groups with several ranks on a node send over the NICs of all of them at once
  /// (as many as the node with the fewest has), so one edge between nodes carries 1/NICs of its bytes
  /// over each: `unit` is that number of NICs, less common divisors. `devices` ascending.
  struct Uses {
    std::vector<LinkUse> links;
    std::int64_t unit = 1;
  };
  Uses uses(std::span<const std::int64_t> devices, std::span<const GroupEdge> edges, bool striped) const;

 private:
  LinkId port(std::int64_t device, bool out) const { return static_cast<LinkId>(2 * device + (out ? 0 : 1)); }
  LinkId nic_link(std::int64_t node, std::int64_t nic, bool out) const;
  LinkId uplink(std::int64_t node, std::int64_t pcie_switch, bool out) const;
  LinkId trunk(std::int64_t leaf, bool out) const;
  std::int64_t device_switch(std::int64_t device) const;
  std::int64_t nic_switch(std::int64_t nic) const;
  /// From a device to a NIC of its node (out), or back (in).
  template <typename Visit>
  void to_nic(std::int64_t device, std::int64_t nic, bool out, const Visit& visit) const;

  const Cluster& cluster_;
  std::int64_t per_node_, nics_, switches_, nodes_per_leaf_;
  LinkId first_nic_, first_uplink_, first_trunk_;
  LinkId num_leaves_ = 0;    // of leaves with a trunk
  bool ports_to_nics_ = false;  // the device's port is its PCIe slot: traffic to a NIC passes it too
};

}  // namespace trainyard
