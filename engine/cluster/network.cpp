#include "engine/cluster/network.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/base/error.h"
#include "engine/cluster/most_reached.h"

namespace trainyard {

Network::Network(const Cluster& cluster)
    : cluster_(cluster),
      fabric_(cluster),
      per_node_(cluster.devices_per_node),
      nics_(cluster.num_nics()),
      switches_(cluster.pcie.switches),
      reached_inside_(most_reached_inside(cluster).share),
      reached_between_(most_reached_between(cluster).share),
      ports_to_nics_(cluster.intra.kind.starts_with("pcie")) {
  const bool apart = cluster.host.sockets > 1 && cluster.host.link > 0;
  if (!cluster.p2p || cluster.host.memory > 0 || apart) sockets_ = cluster.host.sockets;
  const std::int64_t nodes = cluster.num_nodes;
  first_nic_ = LinkId(2 * nodes * per_node_);
  first_uplink_ = first_nic_ + 2 * nodes * nics_;
  first_memory_ = first_uplink_ + 2 * nodes * switches_;
  first_socket_ = first_memory_ + nodes * sockets_;
  first_drives_ = first_socket_ + 2 * nodes * sockets_;
  first_fabric_ = first_drives_ + (cluster.nvme.drives > 0 ? 2 * nodes : 0);
}

std::int64_t Network::nic(std::int64_t device) const {
  return device % per_node_ * nics_ / per_node_;
}

std::int64_t Network::device_switch(std::int64_t device) const {
  return switches_ == 0 ? 0 : device % per_node_ * switches_ / per_node_;
}

std::int64_t Network::nic_switch(std::int64_t nic) const {
  return switches_ == 0 ? 0 : nic * switches_ / nics_;
}

LinkId Network::nic_link(std::int64_t node, std::int64_t nic, bool out) const {
  return first_nic_ + (2 * (node * nics_ + nic) + (out ? 0 : 1));
}

LinkId Network::uplink(std::int64_t node, std::int64_t pcie_switch, bool out) const {
  return first_uplink_ + (2 * (node * switches_ + pcie_switch) + (out ? 0 : 1));
}

LinkId Network::memory(std::int64_t device) const {
  return first_memory_ + (node(device) * sockets_ + device % per_node_ * sockets_ / per_node_);
}

LinkId Network::socket_link(std::int64_t device, bool out) const {
  return first_socket_ + 2 * (memory(device) - first_memory_) + (out ? 0 : 1);
}

bool Network::across_sockets(std::int64_t a, std::int64_t b) const {
  return sockets_ > 1 && cluster_.host.link > 0 && memory(a) != memory(b);
}

BytesPerSecond Network::reached(LinkId link) const {
  if (link >= first_fabric_ || (link >= first_nic_ && link < first_uplink_))
    return nominal(link) * reached_between_;
  if (link >= first_drives_) return nominal(link);
  // The shares of a bridge's curve are of the bridge's bandwidth (engine/cost/link_bandwidth.h).
  const bool joins_pairs = link >= first_uplink_ && (link < first_memory_ || link >= first_socket_);
  if (joins_pairs && cluster_.intra.kind == "nvlink-bridge") return nominal(link);
  // What holds copies through the host up is the device that copies, not what they pass on the way.
  return nominal(link) * (link >= first_nic_ && !cluster_.p2p ? 1 : reached_inside_);
}

BytesPerSecond Network::nominal(LinkId link) const {
  if (link < first_nic_) return cluster_.intra.bandwidth;
  if (link < first_uplink_) return cluster_.inter.bandwidth / static_cast<double>(nics_);
  if (link < first_memory_) return cluster_.pcie.uplink;
  if (link < first_socket_) return cluster_.host.memory;
  if (link < first_drives_) return cluster_.host.link;
  if (link < first_fabric_) {
    const bool out = (link - first_drives_) % 2 == 0;
    return out ? cluster_.nvme.all_write() : cluster_.nvme.all_read();
  }
  return fabric_.capacity(link - first_fabric_);
}

std::string Network::name(LinkId link) const {
  if (link >= first_fabric_) return fabric_.name(link - first_fabric_);
  const auto of_node = [](std::int64_t index, std::int64_t per_node, const std::string& what) {
    return "node " + std::to_string(index / per_node) + " " + what + " " +
           std::to_string(index % per_node);
  };
  if (link >= first_drives_) {
    const std::int64_t index = link - first_drives_;
    return "node " + std::to_string(index / 2) + " NVMe " + (index % 2 == 0 ? "write" : "read");
  }
  if (link >= first_memory_ && link < first_socket_)
    return of_node(link - first_memory_, sockets_, "host memory");
  const LinkId first = link < first_nic_      ? LinkId(0)
                       : link < first_uplink_ ? first_nic_
                       : link < first_memory_ ? first_uplink_
                                              : first_socket_;
  const std::int64_t index = (link - first) / 2;
  const std::string way = (link - first) % 2 == 0 ? " out" : " in";
  if (link < first_nic_) return "device " + std::to_string(index) + " " + cluster_.intra.kind + way;
  if (link < first_uplink_) return of_node(index, nics_, cluster_.inter.kind) + way;
  if (link < first_memory_) return of_node(index, switches_, "PCIe switch") + way;
  return of_node(index, sockets_, "socket") + way;
}

std::int64_t Network::owner(LinkId link) const {
  if (fabric_.has_rails()) return -1;  // messages to another rail pass their neighbours' ports
  if (link < first_nic_) return link.number() / 2;
  if (link >= first_uplink_ || nics_ != per_node_) return -1;
  return (link - first_nic_) / 2;
}

bool Network::shares_links() const {
  const bool between = nics_ != per_node_ || fabric_.has_links() || fabric_.has_rails();
  return (between && cluster_.num_nodes > 1) || switches_ > 0 || sockets_ > 0;
}

template <typename Visit>
void Network::to_nic(std::int64_t device, std::int64_t nic, bool out, const Visit& visit) const {
  const auto device_side = [&] {
    if (ports_to_nics_ || !cluster_.p2p) visit(port(device, out), 1);
  };
  if (out) device_side();
  if (out && !cluster_.p2p) visit(memory(device), 2);
  if (switches_ > 0 && device_switch(device) != nic_switch(nic)) {
    const std::int64_t first = out ? device_switch(device) : nic_switch(nic);
    const std::int64_t second = out ? nic_switch(nic) : device_switch(device);
    visit(uplink(node(device), first, true), 1);
    visit(uplink(node(device), second, false), 1);
  }
  if (!out && !cluster_.p2p) visit(memory(device), 2);
  if (!out) device_side();
}

template <typename Visit>
void Network::within_node(std::int64_t a, std::int64_t b, const Visit& visit) const {
  visit(port(a, true), 1);
  if (switches_ > 0 && device_switch(a) != device_switch(b)) {
    visit(uplink(node(a), device_switch(a), true), 1);
    visit(uplink(node(b), device_switch(b), false), 1);
  }
  if (!cluster_.p2p) visit(memory(a), 2);
  if (across_sockets(a, b)) {
    visit(socket_link(a, true), 1);
    visit(socket_link(b, false), 1);
  }
  visit(port(b, false), 1);
}

template <typename Visit>
void Network::between_nodes(Rail out, Rail in, const Visit& visit) const {
  const bool over_nvlink =
      fabric_.has_rails() && out.nic != in.nic && !ports_to_nics_ && cluster_.p2p;
  if (over_nvlink) {
    const std::int64_t next = node(out.device) * per_node_ + in.nic * per_node_ / nics_;
    within_node(out.device, next, visit);
    out = {in.nic, next};
  }
  to_nic(out.device, out.nic, true, visit);
  visit(nic_link(node(out.device), out.nic, true), 1);
  std::vector<std::int64_t> passed;
  fabric_.route({node(out.device), out.nic}, {node(in.device), in.nic}, passed);
  for (const std::int64_t link : passed) visit(first_fabric_ + link, 1);
  visit(nic_link(node(in.device), in.nic, false), 1);
  to_nic(in.device, in.nic, false, visit);
}

std::vector<LinkUse> Network::route(std::int64_t from, std::int64_t to) const {
  const std::array<std::int64_t, 2> devices = {from, to};
  const std::array<GroupEdge, 1> edge = {GroupEdge{0, 1}};
  return from == to ? std::vector<LinkUse>{} : uses(devices, edge, false).links;
}

std::vector<LinkUse> Network::host_route(std::int64_t device, bool out) const {
  std::vector<LinkUse> links;
  if (ports_to_nics_) links.push_back({port(device, out), 1});
  if (switches_ > 0) links.push_back({uplink(node(device), device_switch(device), out), 1});
  if (!cluster_.p2p) links.push_back({memory(device), 1});
  return links;
}

std::vector<LinkUse> Network::drive_route(std::int64_t device, bool out) const {
  return {{first_drives_ + (2 * node(device) + (out ? 0 : 1)), 1}};
}

std::vector<LinkUse> Network::route_by_hosts(std::int64_t from, std::int64_t to) const {
  std::vector<LinkUse> links;
  const auto pass = [&](LinkId link, std::int64_t times) { links.push_back({link, times}); };
  const bool has_memory = cluster_.host.memory > 0;
  const bool in_node = node(from) == node(to);
  if (in_node && memory(from) == memory(to)) {
    if (has_memory) pass(memory(from), 2);
    return links;
  }
  if (has_memory) pass(memory(from), 1);
  if (in_node) {
    if (across_sockets(from, to)) {
      pass(socket_link(from, true), 1);
      pass(socket_link(to, false), 1);
    }
  } else {
    // A host reaches all NICs of its node: on rails, the one of the receiver's.
    const std::int64_t in = nic(to), out = fabric_.has_rails() ? in : nic(from);
    if (switches_ > 0) pass(uplink(node(from), nic_switch(out), false), 1);
    pass(nic_link(node(from), out, true), 1);
    std::vector<std::int64_t> passed;
    fabric_.route({node(from), out}, {node(to), in}, passed);
    for (const std::int64_t link : passed) pass(first_fabric_ + link, 1);
    pass(nic_link(node(to), in, false), 1);
    if (switches_ > 0) pass(uplink(node(to), nic_switch(in), true), 1);
  }
  if (has_memory) pass(memory(to), 1);
  return links;
}

struct Network::Stripes {
  struct Node {
    std::size_t first = 0, size = 0;  // of its members
    std::vector<std::size_t>
        leaving;  // [NIC next to a member]: a member next to it, counted from the first
  };
  std::vector<Node> nodes;
  Numbered<std::size_t> node_of;  // [member]
  std::size_t fewest = 1;         // NICs next to the members of a node
};

Network::Stripes Network::stripes(std::span<const std::int64_t> devices) const {
  Stripes out;
  out.node_of.reserve(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i == 0 || node(devices[i]) != node(devices[i - 1])) out.nodes.push_back({i, 0, {}});
    Stripes::Node& own = out.nodes.back();
    out.node_of.push_back(out.nodes.size() - 1);
    if (own.leaving.empty() || nic(devices[own.first + own.leaving.back()]) != nic(devices[i]))
      own.leaving.push_back(own.size);
    ++own.size;
  }
  if (out.nodes.size() < 2) return out;  // nothing leaves the node
  out.fewest = out.nodes.front().leaving.size();
  for (const Stripes::Node& each : out.nodes)
    out.fewest = std::min(out.fewest, each.leaving.size());
  return out;
}

Network::Uses Network::uses(std::span<const std::int64_t> devices, std::span<const GroupEdge> edges,
                            bool striped) const {
  std::vector<LinkUse> counted;
  const auto pass = [&](LinkId link, std::int64_t times) { counted.push_back({link, times}); };
  const auto go = [&](Rail a, Rail b) {
    if (a.device == b.device) return;
    if (node(a.device) == node(b.device))
      within_node(a.device, b.device, pass);
    else
      between_nodes(a, b, pass);
  };
  std::size_t rings = 1;
  if (striped) {
    const Stripes all = stripes(devices);
    rings = all.fewest;
    for (std::size_t ring = 0; ring < rings; ++ring) {
      // The member of a node in whose place this ring has another, so that the last one leaves.
      const auto end = [&](std::int32_t member) {
        const Stripes::Node& own = all.nodes[all.node_of[member]];
        const std::size_t turn = all.nodes.size() < 2 ? 0 : own.leaving[ring] + 1;
        const std::size_t place = (static_cast<std::size_t>(member) - own.first + turn) % own.size;
        return Rail{nic(devices[own.first + own.leaving[ring]]), devices[own.first + place]};
      };
      for (const GroupEdge& edge : edges) go(end(edge.from), end(edge.to));
    }
  } else {
    for (const GroupEdge& edge : edges) {
      const std::int64_t a = devices.begin()[edge.from];
      const std::int64_t b = devices.begin()[edge.to];
      go({nic(a), a}, {nic(b), b});
    }
  }
  if (edges.size() * rings > 1) {
    std::sort(counted.begin(), counted.end(),
              [](const LinkUse& x, const LinkUse& y) { return x.link < y.link; });
  }
  Uses out;
  out.unit = static_cast<std::int64_t>(rings);
  for (const LinkUse& use : counted) {
    if (!out.links.empty() && out.links.back().link == use.link)
      out.links.back().times += use.times;
    else
      out.links.push_back(use);
  }
  std::int64_t divisor = out.unit;
  for (const LinkUse& use : out.links) divisor = std::gcd(divisor, use.times);
  for (LinkUse& use : out.links) use.times /= divisor;
  out.unit /= divisor;
  return out;
}

double Network::fabric_seconds(std::span<const std::int64_t> devices,
                               std::span<const GroupEdge> edges, bool striped) const {
  return fabric_seconds(uses(devices, edges, striped));
}

double Network::fabric_seconds(const Uses& passed) const {
  double slowest = 0;
  for (const LinkUse& use : passed.links) {
    if (use.link >= first_fabric_)
      slowest = std::max(slowest, static_cast<double>(use.times) / nominal(use.link));
  }
  return slowest / static_cast<double>(passed.unit);
}

Network::PairLoads Network::pair_loads(std::span<const std::int64_t> devices) const {
  PairLoads out;
  const auto n = static_cast<std::int32_t>(devices.size());
  std::vector<GroupEdge> pairs;
  for (std::int32_t a = 0; a < n; ++a) {
    for (std::int32_t b = 0; b < n; ++b) {
      if (a != b) pairs.push_back({a, b});
    }
  }
  const Uses passed = uses(devices, pairs, false);
  for (const LinkUse& use : passed.links) {
    const bool is_nic = use.link >= first_nic_ && use.link < first_uplink_;
    if (is_nic) out.nic_messages = std::max(out.nic_messages, use.times);
  }
  for (const Stripes::Node& each : stripes(devices).nodes)
    out.most_per_node = std::max(out.most_per_node, static_cast<std::int64_t>(each.size));
  out.fabric = fabric_seconds(passed);
  return out;
}

}  // namespace trainyard
