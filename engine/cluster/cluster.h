// A cluster as plain data: equal nodes of equal devices, the links inside a node, the network
// between nodes, and per-device speeds. topologies/ holds one small file per preset; network.h
// makes the graph of links of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/provenance.h"
#include "engine/base/units.h"
#include "engine/cluster/pair_costs.h"

namespace trainyard {

/// One class of links, with the curve that its transfers follow.
///
///   time = startup + steps * latency
///          + volume / (e(message) * bandwidth) * (1 + sqrt(half_size / message))
///
/// where steps and volume are the collective's (ring all-reduce: 2(n-1) and 2(n-1)/n S), message is
/// S, and bandwidth is one direction, per device (between nodes: the node's share for that device).
/// e(message) is `efficiency`, unless bytes beyond some size move at another one: then the
/// message's bytes up to the first size move at `efficiency`, those up to the next at its entry,
/// and so on, so that the time grows steadily with the message: at most three straight lines in a
/// row, which is what NCCL's protocols look like from outside. With startup 0, efficiency 1 and
/// nothing else it is the textbook alpha-beta model.
struct LinkCurve {
  Seconds startup = 0;    // once per call
  Seconds latency = 0;    // per step of the algorithm (alpha)
  double efficiency = 1;  // (0, 1]: reached share of the nominal bandwidth
  Bytes half_size = 0;    // see above; 0: constant bandwidth
  /// Collectives inside a node: the efficiency of a group of so many ranks, where it depends on it
  /// (a cube mesh closes more rings for 8 than for 4; a bridge joins 2 only). Other sizes take the
  /// entry of the next smaller one, and `efficiency` below the smallest.
  std::map<std::int64_t, double> efficiency_by_ranks = {};
  Provenance provenance = {};
  std::map<Bytes, double> efficiency_beyond =
      {};  // message size -> of the bytes beyond it; may exceed 1
  /// Between nodes: latency of a ring's step from rank to rank of one node, where the ring goes on
  /// to others; 0: that of the link inside the node.
  Seconds rank_latency = 0;

  /// Groups of so many ranks, where more than the efficiency depends on it. Looked up as
  /// efficiency_by_ranks, which it goes before.
  struct Group {
    Seconds startup = 0;
    double efficiency = 1;
    std::map<Bytes, double> efficiency_beyond = {};
    friend bool operator==(const Group&, const Group&) = default;
  };
  std::map<std::int64_t, Group> by_ranks = {};
  /// Sizes of messages that were measured; beyond them an answer is marked as extrapolated. 0: not
  /// said.
  Bytes measured_from = 0, measured_to = 0;
};

struct LinkClass {
  std::string kind;              // nvswitch, nvlink, pcie, infiniband, roce, ethernet, none, ...
  BytesPerSecond bandwidth = 0;  // nominal, one direction: per device inside, per node outside
  LinkCurve collective;
  LinkCurve point_to_point;
  std::string source;                    // where the figures come from
  std::string provenance = "datasheet";  // measured | fitted | datasheet | derived
  std::string name = {};  // file under calibrate/links/, "nvswitch-ampere"; may be empty
  BytesPerSecond bandwidth_per_nic =
      0;  // between nodes: usual, one direction; 0: only a cluster can say
  std::map<std::string, LinkCurve> by_kind =
      {};  // inside a node: collectives with a curve of their own, "all_gather"
  std::optional<LinkCurve> in_switch =
      {};  // all-reduces that the switches add up (NVLS); absent: they cannot
};

/// The network between nodes. What its links carry, and on which way a message goes, is in
/// fabric_links.h.
struct Fabric {
  std::string kind =
      "single-switch";  // single-switch | fat-tree | rail-optimised | dragonfly | torus
  /// Nodes under one leaf (fat-tree), on one set of rail switches (rail-optimised: a leaf for each
  /// NIC of a node), on one router (dragonfly).
  std::int64_t nodes_per_leaf = 16;
  double oversubscription = 1;  // >= 1: bandwidth out of a leaf is divided by it; 1: no bottleneck
  std::int64_t leaves_per_pod = 0;  // fat-tree: leaves under one set of spine switches; 0: all
  double pod_oversubscription = 1;  // fat-tree: bandwidth out of a pod is divided by it once more
  std::int64_t routers_per_group = 0;  // dragonfly
  std::vector<std::int64_t> dimensions =
      {};                          // torus: nodes along each of its 2 or 3, the first the fastest
  BytesPerSecond link = 0;         // torus, dragonfly: of a link between neighbours or in a group
  BytesPerSecond global_link = 0;  // dragonfly: between two groups
};

/// The hosts: their memory, through which devices without peer access (`p2p: off`) send (one device
/// writes it, the other, or the NIC, reads it) and in which what is offloaded lies; and the cores,
/// which update an optimizer's state that lies there.
struct HostMemory {
  std::int64_t sockets = 1;   // per node, each with an equal part of its devices
  BytesPerSecond memory = 0;  // of one socket, reads and writes together
  BytesPerSecond link = 0;    // between sockets, one direction; 0: no bottleneck
  Bytes capacity = 0;         // of a node; 0: not known
  std::int64_t cores = 0;     // of a node; 0: not known
  /// Parameters per second that a node's cores update, all together, AdamW's state in their memory;
  /// 0: not known. CPUs that are the devices update as these.
  double update_rate = 0;
  Provenance update_provenance = {};
};

/// The NVMe drives of a node, over which what lies there is striped: any rank of the node has all
/// of them, or what the others leave.
struct NvmeDrives {
  BytesPerSecond read = 0, write = 0;  // of one drive, in sequence
  std::int64_t drives = 0;             // of a node; 0: it has none
  Provenance provenance = {};
  Bytes capacity = 0;  // of one drive; 0: not known
  BytesPerSecond all_read() const { return read * static_cast<double>(drives); }
  BytesPerSecond all_write() const { return write * static_cast<double>(drives); }
};

/// PCIe switches of a node, each with an equal part of its devices and NICs behind it.
struct PcieTree {
  std::int64_t switches = 0;  // 0: none that could be a bottleneck
  BytesPerSecond uplink = 0;  // from one switch to the rest of the node, one direction
};

struct Cluster {
  // Compiled once, in cluster.cpp: hundreds of files copy, move and destroy it.
  Cluster();
  Cluster(const Cluster&);
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(const Cluster&);
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  std::string name = "custom";
  std::string device;  // name of the hardware profile, e.g. a100-sxm-80g
  std::int64_t num_nodes = 1;
  std::int64_t devices_per_node = 1;
  std::int64_t hosts_per_node = 1;  // of an NVLink domain
  std::int64_t num_devices = 1;     // <= num_nodes * devices_per_node (a part-filled last node)
  LinkClass intra;
  LinkClass inter;
  std::int64_t nics = 0;  // per node, each with an equal part of inter.bandwidth; 0: one per device
  PcieTree pcie;
  Fabric fabric;
  std::int64_t num_nics() const {
    return nics > 0 && nics < devices_per_node ? nics : devices_per_node;
  }
  bool p2p = true;  // devices of a node read each other's memory
  std::optional<bool> rdma =
      {};  // NICs read and write the devices' memory; absent: as has_rdma() says (peer_access.h)
  bool of_cpus = false;  // its devices are CPUs: tensors lie in the memory of the hosts
  HostMemory host;
  NvmeDrives nvme;
  std::map<std::int64_t, double> speed;  // device index before placement -> factor on compute rate
  std::map<std::string, std::string> collectives =
      {};                       // all_reduce, ... -> algorithm; absent: ring
  PairCosts pairs = {};         // of its devices, in seconds, as somebody measured; empty: not said
  std::string pairs_file = {};  // where they were read from
};

}  // namespace trainyard
