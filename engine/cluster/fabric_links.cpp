#include "engine/cluster/fabric_links.h"

#include "engine/base/error.h"

namespace trainyard {

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

FabricLinks::FabricLinks(const Cluster& cluster)
    : fabric_(cluster.fabric),
      of_node_(cluster.inter.bandwidth),
      nics_(cluster.num_nics()) {
  const std::int64_t nodes = cluster.num_nodes;
  const std::int64_t leaves =
      fabric_.nodes_per_leaf > 0 ? divide_up(nodes, fabric_.nodes_per_leaf) : 0;
  if (fabric_.kind == "fat-tree") {
    kind_ = Kind::kFatTree;
    has_leaf_trunks_ = fabric_.oversubscription > 1;
    if (has_leaf_trunks_) leaf_trunks_ = leaves;
    const bool pods =
        fabric_.leaves_per_pod > 0 && fabric_.oversubscription * fabric_.pod_oversubscription > 1;
    if (pods) pod_trunks_ = divide_up(leaves, fabric_.leaves_per_pod);
    num_links_ = 2 * (leaf_trunks_ + pod_trunks_);
  } else if (fabric_.kind == "rail-optimised") {
    kind_ = Kind::kRails;
    if (fabric_.oversubscription > 1) leaf_trunks_ = leaves * nics_;
    num_links_ = 2 * leaf_trunks_;
  } else if (fabric_.kind == "dragonfly") {
    kind_ = Kind::kDragonfly;
    const std::int64_t routers = fabric_.routers_per_group;
    groups_ = divide_up(leaves, routers);
    num_links_ = groups_ * routers * routers + groups_ * groups_;
  } else if (fabric_.kind == "torus") {
    kind_ = Kind::kTorus;
    std::int64_t places = 1;
    for (const std::int64_t size : fabric_.dimensions) places *= size;
    num_links_ = places * 2 * static_cast<std::int64_t>(fabric_.dimensions.size());
  }
}

BytesPerSecond FabricLinks::capacity(std::int64_t link) const {
  switch (kind_) {
    case Kind::kFatTree: {
      const BytesPerSecond of_leaf =
          of_node_ * static_cast<double>(fabric_.nodes_per_leaf) / fabric_.oversubscription;
      if (link < 2 * leaf_trunks_) return of_leaf;
      return of_leaf * static_cast<double>(fabric_.leaves_per_pod) / fabric_.pod_oversubscription;
    }
    case Kind::kRails:
      return of_node_ / static_cast<double>(nics_) * static_cast<double>(fabric_.nodes_per_leaf) /
             fabric_.oversubscription;
    case Kind::kDragonfly: {
      const bool local = link < groups_ * fabric_.routers_per_group * fabric_.routers_per_group;
      return local ? fabric_.link : fabric_.global_link;
    }
    case Kind::kTorus: return fabric_.link;
    case Kind::kSwitch: break;
  }
  bug("a fabric without links was asked for the width of one");
}

std::string FabricLinks::name(std::int64_t link) const {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string way = link % 2 == 0 ? " trunk up" : " trunk down";
  switch (kind_) {
    case Kind::kFatTree:
      if (link < 2 * leaf_trunks_) return "leaf " + text(link / 2) + way;
      return "pod " + text(link / 2 - leaf_trunks_) + way;
    case Kind::kRails:
      return "rail " + text(link / 2 % nics_) + " leaf " + text(link / 2 / nics_) + way;
    case Kind::kDragonfly: {
      const std::int64_t routers = fabric_.routers_per_group;
      const std::int64_t local = groups_ * routers * routers;
      if (link >= local)
        return "group " + text((link - local) / groups_) + " to group " +
               text((link - local) % groups_);
      const std::int64_t group = link / (routers * routers);
      return "group " + text(group) + " router " + text(link / routers % routers) + " to " +
             text(link % routers);
    }
    case Kind::kTorus: {
      const auto ways = 2 * static_cast<std::int64_t>(fabric_.dimensions.size());
      const std::int64_t way_of = link % ways;
      return "node " + text(link / ways) + " torus " + std::string(1, "xyz"[way_of / 2]) +
             (way_of % 2 == 0 ? " +" : " -");
    }
    case Kind::kSwitch: break;
  }
  bug("a fabric without links was asked for the name of one");
}

void FabricLinks::route(Port from, Port to, std::vector<std::int64_t>& out) const {
  if (num_links_ == 0 || from.node == to.node) return;
  const auto trunks = [&](std::int64_t first, std::int64_t a, std::int64_t b) {
    out.push_back(first + 2 * a);
    out.push_back(first + 2 * b + 1);
  };
  switch (kind_) {
    case Kind::kFatTree: {
      const bool pods = pod_trunks_ > 0 && pod(from.node) != pod(to.node);
      const bool leaves = leaf(from.node) != leaf(to.node);
      if (leaves) out.push_back(2 * leaf(from.node));
      if (pods) trunks(2 * leaf_trunks_, pod(from.node), pod(to.node));
      if (leaves) out.push_back(2 * leaf(to.node) + 1);
      return;
    }
    case Kind::kRails:
      if (rail_trunk(from) != rail_trunk(to)) trunks(0, rail_trunk(from), rail_trunk(to));
      return;
    case Kind::kDragonfly:
      return dragonfly_route(from.node / fabric_.nodes_per_leaf, to.node / fabric_.nodes_per_leaf,
                             out);
    case Kind::kTorus: return torus_route(from.node, to.node, out);
    case Kind::kSwitch: return;
  }
}

void FabricLinks::torus_route(std::int64_t from, std::int64_t to,
                              std::vector<std::int64_t>& out) const {
  const auto ways = 2 * static_cast<std::int64_t>(fabric_.dimensions.size());
  std::int64_t stride = 1;
  std::int64_t at = from;
  for (std::size_t d = 0; d < fabric_.dimensions.size(); ++d) {
    const std::int64_t size = fabric_.dimensions[d];
    std::int64_t here = at / stride % size;
    const std::int64_t up = (to / stride % size + size - here) % size;
    const bool upwards = 2 * up <= size;
    for (std::int64_t hop = 0; hop < (upwards ? up : size - up); ++hop) {
      out.push_back(at * ways + 2 * static_cast<std::int64_t>(d) + (upwards ? 0 : 1));
      const std::int64_t next = (here + (upwards ? 1 : size - 1)) % size;
      at += (next - here) * stride;
      here = next;
    }
    stride *= size;
  }
}

void FabricLinks::dragonfly_route(std::int64_t from, std::int64_t to,
                                  std::vector<std::int64_t>& out) const {
  const std::int64_t routers = fabric_.routers_per_group;
  const auto local = [&](std::int64_t group, std::int64_t a, std::int64_t b) {
    if (a != b) out.push_back((group * routers + a) * routers + b);
  };
  const std::int64_t a = from / routers, b = to / routers;
  if (a == b) return local(a, from % routers, to % routers);
  local(a, from % routers, b % routers);
  out.push_back(groups_ * routers * routers + a * groups_ + b);
  local(b, a % routers, to % routers);
}

}  // namespace trainyard
