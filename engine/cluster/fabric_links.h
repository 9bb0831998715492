// Links between the NICs of a cluster's nodes: how many, how wide, and which of them a message
// passes.
//
//   single-switch   none: a NIC is the narrowest link on every way.
//   fat-tree        trunks: all uplinks of a leaf together, as if traffic were spread over its
//   spines
//                   evenly, and all uplinks of a pod of leaves to the core. None where they are as
//                   wide as what is below them.
//   rail-optimised  a leaf for each rail (the NICs of one number) of a set of nodes, and its trunk.
//   Devices
//                   reach another rail over NVLink (Network), else over the spines.
//   dragonfly       a link between every two routers of a group, and one between every two groups,
//   which
//                   ends at router (number of the other group) mod (routers) of each. The shortest
//                   way.
//   torus           a link to each neighbour. The shortest way along the first dimension, then the
//   next;
//                   half way round it goes upwards.
//
// Every link is two of these, one per direction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"

namespace trainyard {

/// Links are numbered from 0, not stored.
class FabricLinks {
 public:
  /// A NIC of a node.
  struct Port {
    std::int64_t node = 0;
    std::int64_t nic = 0;  // within the node
  };

  explicit FabricLinks(const Cluster& cluster);

  BytesPerSecond capacity(std::int64_t link) const;
  std::string name(std::int64_t link) const;  // "leaf 2 trunk up", "node 5 torus z +"

  /// Appends the links from one node's NIC to another's, in order.
  void route(Port from, Port to, std::vector<std::int64_t>& out) const;

  /// Nodes with one number of leaf are joined without passing a trunk; all are, where there are
  /// none.
  std::int64_t leaf(std::int64_t node) const {
    return has_leaf_trunks_ ? node / fabric_.nodes_per_leaf : 0;
  }

  /// Whether only routes, and not numbers of leaves, tell how much the links of a group carry.
  bool needs_routes() const {
    return num_links_ > 0 && !(kind_ == Kind::kFatTree && pod_trunks_ == 0);
  }
  bool has_links() const { return num_links_ > 0; }
  /// Whether NICs of a node are on rails of their own.
  bool has_rails() const { return kind_ == Kind::kRails && nics_ > 1; }

 private:
  enum class Kind : std::uint8_t { kSwitch, kFatTree, kRails, kDragonfly, kTorus };

  void torus_route(std::int64_t from, std::int64_t to, std::vector<std::int64_t>& out) const;
  void dragonfly_route(std::int64_t from, std::int64_t to, std::vector<std::int64_t>& out) const;
  std::int64_t pod(std::int64_t node) const {
    return node / (fabric_.nodes_per_leaf * fabric_.leaves_per_pod);
  }
  std::int64_t rail_trunk(Port port) const {
    return port.node / fabric_.nodes_per_leaf * nics_ + port.nic;
  }

  Kind kind_ = Kind::kSwitch;
  const Fabric& fabric_;
  BytesPerSecond of_node_;
  std::int64_t nics_;
  std::int64_t leaf_trunks_ = 0, pod_trunks_ = 0;  // fat-tree, rails: 2 of each
  bool has_leaf_trunks_ = false;
  std::int64_t groups_ = 0;  // dragonfly
  std::int64_t num_links_ = 0;
};

}  // namespace trainyard
