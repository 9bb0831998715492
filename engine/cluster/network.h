// A cluster as a graph: every link that a transfer can be held up by, one entry per direction, and
// which of them lie between two devices.
//
//   device --(port)-- switch or mesh of the node --(port)-- device            inside a node
//   device --(PCIe uplink)-- NIC -- links of the fabric -- NIC --(PCIe uplink)-- device
//   device --(port)-- host memory --(link between sockets)--(port)-- device   without peer access
//   device --(port)--(PCIe uplink)-- host memory                              copies to the host
//   and back host memory --(drives of the node: written, read)-- NVMe         and to its drives
//   host memory --(link between sockets)-- host memory                        messages between
//   hosts, in a node host memory --(PCIe uplink)-- NIC -- links of the fabric -- NIC
//   --(PCIe uplink)-- host memory
//
// Ports: the NVLinks (or the PCIe slot) of one device. NICs: each belongs to the devices next to
// it, and to the PCIe switch that they share. Links of the fabric: fabric_links.h. Host memory: one
// link per socket for reads and writes together, passed twice, by the device that writes it and by
// the device or NIC that reads. Switches themselves never hold anything up. Where NICs of one
// number share a rail, what goes to another rail goes over NVLink to the device next to the NIC of
// that rail first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fabric_links.h"

namespace trainyard {

using LinkId = Index<struct NetworkLink>;

/// A link, and how often what is sent passes it.
struct LinkUse {
  LinkId link;
  std::int64_t times = 1;
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

/// One edge of a collective: member `from` sends to member `to` (indices into the group).
struct GroupEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

/// Links are numbered, not stored: a cluster of 2^20 devices costs nothing until a route is asked
/// for.
class Network {
 public:
  explicit Network(const Cluster& cluster);

  BytesPerSecond nominal(LinkId link) const;  // one direction
  /// What all messages on it together reach at most, by their curves (most_reached.h).
  BytesPerSecond reached(LinkId link) const;
  /// What it carries: the nominal bandwidth, or more where messages reach more.
  BytesPerSecond capacity(LinkId link) const { return std::max(nominal(link), reached(link)); }
  std::string name(LinkId link) const;  // "device 12 nvswitch out", "leaf 2 trunk up"
  /// The only device whose traffic passes this link; -1: several.
  std::int64_t owner(LinkId link) const;
  /// Whether there are links without an owner, but for those to the drives.
  bool shares_links() const;

  std::int64_t devices_per_node() const { return per_node_; }
  std::int64_t node(std::int64_t device) const { return device / per_node_; }
  std::int64_t leaf(std::int64_t device) const { return fabric_.leaf(node(device)); }
  std::int64_t nic(std::int64_t device) const;  // number within the node

  /// Links from device `from` to device `to`, in order, each once. Empty for from = to.
  std::vector<LinkUse> route(std::int64_t from, std::int64_t to) const;

  /// Links between a device and the memory of its host that something else passes too; `out`: to
  /// the host.
  std::vector<LinkUse> host_route(std::int64_t device, bool out) const;

  /// The link between the memory of a device's host and its NVMe drives; `out`: written.
  std::vector<LinkUse> drive_route(std::int64_t device, bool out) const;

  /// Links from the memory of the host of device `from` to that of device `to`. In one socket the
  /// message passes its memory twice, read and written; else that of either once.
  std::vector<LinkUse> route_by_hosts(std::int64_t from, std::int64_t to) const;

  /// Links of all `edges` of a group together, ascending, and how often each is passed while every
  /// edge carries `unit` bytes. `striped`: a ring or chain of a group with several ranks on a node
  /// is as many at once as the node with the fewest has NICs beside its ranks, each of which leaves
  /// the node at a rank next to its own NIC, goes on with the rank after that one, and carries
  /// 1/NICs of the bytes: `unit` is that number of NICs, less common divisors. `devices` ascending.
  struct Uses {
    std::vector<LinkUse> links;
    std::int64_t unit = 1;
  };
  Uses uses(std::span<const std::int64_t> devices, std::span<const GroupEdge> edges,
            bool striped) const;

  /// Whether GroupLayout must have fabric_seconds(), because numbers of nodes and leaves do not
  /// tell it.
  bool fabric_needs_routes() const { return fabric_.needs_routes(); }
  /// Seconds per byte on each edge that the busiest link of the fabric takes, of nominal bandwidth.
  /// 0: no such link is passed.
  double fabric_seconds(std::span<const std::int64_t> devices, std::span<const GroupEdge> edges,
                        bool striped) const;

  /// What is passed while each of `devices` (ascending) sends a message to every other.
  struct PairLoads {
    std::int64_t most_per_node = 0;  // of the devices
    std::int64_t nic_messages = 0;   // most on one NIC, one way
    double fabric = 0;               // as fabric_seconds()
  };
  PairLoads pair_loads(std::span<const std::int64_t> devices) const;

 private:
  LinkId port(std::int64_t device, bool out) const { return LinkId(2 * device + (out ? 0 : 1)); }
  LinkId nic_link(std::int64_t node, std::int64_t nic, bool out) const;
  LinkId uplink(std::int64_t node, std::int64_t pcie_switch, bool out) const;
  LinkId memory(std::int64_t device) const;
  LinkId socket_link(std::int64_t device, bool out) const;
  bool across_sockets(std::int64_t a, std::int64_t b) const;
  std::int64_t device_switch(std::int64_t device) const;
  std::int64_t nic_switch(std::int64_t nic) const;
  /// From a device to a NIC of its node (out), or back (in).
  template <typename Visit>
  void to_nic(std::int64_t device, std::int64_t nic, bool out, const Visit& visit) const;
  /// From one device of a node to another.
  template <typename Visit>
  void within_node(std::int64_t a, std::int64_t b, const Visit& visit) const;
  struct Rail {
    std::int64_t nic, device;  // a NIC, and the device that sends to it or receives from it
  };
  /// How the members of a group lie on its nodes.
  struct Stripes;
  double fabric_seconds(const Uses& passed) const;
  Stripes stripes(std::span<const std::int64_t> devices) const;
  template <typename Visit>
  void between_nodes(Rail out, Rail in, const Visit& visit) const;

  const Cluster& cluster_;
  FabricLinks fabric_;
  std::int64_t per_node_, nics_, switches_;
  std::int64_t sockets_ = 0;  // whose memory, or links to each other, can hold something up
  double reached_inside_, reached_between_;  // shares (most_reached.h)
  LinkId first_nic_, first_uplink_, first_memory_, first_socket_, first_drives_, first_fabric_;
  bool ports_to_nics_ =
      false;  // the device's port is its PCIe slot: traffic to a NIC passes it too
};

}  // namespace trainyard
