#include "engine/cluster/network.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/base/error.h"

namespace trainyard {

Network::Network(const Cluster& cluster)
    : cluster_(cluster),
      per_node_(cluster.devices_per_node),
      nics_(cluster.num_nics()),
      switches_(cluster.pcie.switches),
      nodes_per_leaf_(cluster.fabric.nodes_per_leaf),
      ports_to_nics_(cluster.intra.kind.starts_with("pcie")) {
  first_nic_ = static_cast<LinkId>(2 * cluster.num_nodes * per_node_);
  first_uplink_ = first_nic_ + static_cast<LinkId>(2 * cluster.num_nodes * nics_);
  first_trunk_ = first_uplink_ + static_cast<LinkId>(2 * cluster.num_nodes * switches_);
  const bool trunks = cluster.fabric.kind == "fat-tree" && cluster.fabric.oversubscription > 1;
  if (trunks) num_leaves_ = static_cast<LinkId>((cluster.num_nodes + nodes_per_leaf_ - 1) / nodes_per_leaf_);
}

std::int64_t Network::nic(std::int64_t device) const { return device % per_node_ * nics_ / per_node_; }

std::int64_t Network::device_switch(std::int64_t device) const {
  return switches_ == 0 ? 0 : device % per_node_ * switches_ / per_node_;
}

std::int64_t Network::nic_switch(std::int64_t nic) const { return switches_ == 0 ? 0 : nic * switches_ / nics_; }

LinkId Network::nic_link(std::int64_t node, std::int64_t nic, bool out) const {
  return first_nic_ + static_cast<LinkId>(2 * (node * nics_ + nic) + (out ? 0 : 1));
}

LinkId Network::uplink(std::int64_t node, std::int64_t pcie_switch, bool out) const {
  return first_uplink_ + static_cast<LinkId>(2 * (node * switches_ + pcie_switch) + (out ? 0 : 1));
}

LinkId Network::trunk(std::int64_t leaf, bool out) const {
  return first_trunk_ + static_cast<LinkId>(2 * leaf + (out ? 0 : 1));
}

BytesPerSecond Network::capacity(LinkId link) const {
  if (link < first_nic_) return cluster_.intra.bandwidth;
  if (link < first_uplink_) return cluster_.inter.bandwidth / static_cast<double>(nics_);
  if (link < first_trunk_) return cluster_.pcie.uplink;
  return cluster_.inter.bandwidth * static_cast<double>(nodes_per_leaf_) / cluster_.fabric.oversubscription;
}

std::string Network::name(LinkId link) const {
  const std::string way = link % 2 == 0 ? " out" : " in";
  if (link < first_nic_) return "device " + std::to_string(link / 2) + " " + cluster_.intra.kind + way;
  if (link < first_uplink_) {
    const std::int64_t index = (link - first_nic_) / 2;
    return "node " + std::to_string(index / nics_) + " " + cluster_.inter.kind + " " + std::to_string(index % nics_) + way;
  }
  if (link < first_trunk_) {
    const std::int64_t index = (link - first_uplink_) / 2;
    return "node " + std::to_string(index / switches_) + " PCIe switch " + std::to_string(index % switches_) + way;
  }
  return "leaf " + std::to_string((link - first_trunk_) / 2) + " trunk " + (link % 2 == first_trunk_ % 2 ? "up" : "down");
}

std::int64_t Network::owner(LinkId link) const {
  if (link < first_nic_) return link / 2;
  if (link >= first_uplink_ || nics_ != per_node_) return -1;
  return (link - first_nic_) / 2;
}

template <typename Visit>
void Network::to_nic(std::int64_t device, std::int64_t nic, bool out, const Visit& visit) const {
  if (ports_to_nics_) visit(port(device, out));
  if (switches_ == 0 || device_switch(device) == nic_switch(nic)) return;
  visit(uplink(node(device), device_switch(device), out));
  visit(uplink(node(device), nic_switch(nic), !out));
}

std::vector<LinkUse> Network::route(std::int64_t from, std::int64_t to) const {
  const std::array<std::int64_t, 2> devices = {from, to};
  const std::array<GroupEdge, 1> edge = {GroupEdge{0, 1}};
  return from == to ? std::vector<LinkUse>{} : uses(devices, edge, false).links;
}

Network::Uses Network::uses(std::span<const std::int64_t> devices, std::span<const GroupEdge> edges,
                            bool striped) const {
  // NICs of the group on each of its nodes, each with one of the devices next to it.
  struct Rail {
    std::int64_t nic, device;
  };
  std::vector<std::vector<Rail>> rails;
  std::vector<std::size_t> place(devices.size());  // index into rails of each member's node
  std::size_t fewest = 1;
  if (striped) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (i == 0 || node(devices[i]) != node(devices[i - 1])) rails.emplace_back();
      place[i] = rails.size() - 1;
      const std::int64_t own = nic(devices[i]);
      if (rails.back().empty() || rails.back().back().nic != own) rails.back().push_back({own, devices[i]});
    }
    fewest = rails.front().size();
    for (const auto& of_node : rails) fewest = std::min(fewest, of_node.size());
  }
  std::vector<LinkUse> counted;
  const auto pass = [&](LinkId link, std::size_t times) { counted.push_back({link, static_cast<std::int64_t>(times)}); };
  for (const GroupEdge& edge : edges) {
    const std::int64_t a = devices[static_cast<std::size_t>(edge.from)];
    const std::int64_t b = devices[static_cast<std::size_t>(edge.to)];
    if (a == b) continue;
    if (node(a) == node(b)) {
      pass(port(a, true), fewest);
      if (switches_ > 0 && device_switch(a) != device_switch(b)) {
        pass(uplink(node(a), device_switch(a), true), fewest);
        pass(uplink(node(b), device_switch(b), false), fewest);
      }
      pass(port(b, false), fewest);
      continue;
    }
    for (std::size_t rail = 0; rail < fewest; ++rail) {
      const Rail out = striped ? rails[place[static_cast<std::size_t>(edge.from)]][rail] : Rail{nic(a), a};
      const Rail in = striped ? rails[place[static_cast<std::size_t>(edge.to)]][rail] : Rail{nic(b), b};
      to_nic(out.device, out.nic, true, [&](LinkId link) { pass(link, 1); });
      pass(nic_link(node(a), out.nic, true), 1);
      if (num_leaves_ > 0 && leaf(a) != leaf(b)) {
        pass(trunk(leaf(a), true), 1);
        pass(trunk(leaf(b), false), 1);
      }
      pass(nic_link(node(b), in.nic, false), 1);
      to_nic(in.device, in.nic, false, [&](LinkId link) { pass(link, 1); });
    }
  }
  if (edges.size() > 1) {
    std::sort(counted.begin(), counted.end(), [](const LinkUse& x, const LinkUse& y) { return x.link < y.link; });
  }
  Uses out;
  out.unit = static_cast<std::int64_t>(fewest);
  std::int64_t divisor = out.unit;
  for (const LinkUse& use : counted) {
    if (!out.links.empty() && out.links.back().link == use.link) out.links.back().times += use.times;
    else out.links.push_back(use);
  }
  for (const LinkUse& use : out.links) divisor = std::gcd(divisor, use.times);
  for (LinkUse& use : out.links) use.times /= divisor;
  out.unit /= divisor;
  return out;
}

}  // namespace trainyard
