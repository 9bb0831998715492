// Seconds of kernels, collectives and transfers, from a hardware profile, a software profile and a
// cluster. Pure arithmetic over plain data; every figure used is noted in a SourceLog, so that an
// answer can say what it rests on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/kernel_work.h"
#include "engine/cost/software_profile.h"

namespace trainyard {

/// A profile entry that a result rests on.
struct SourceEntry {
  std::string name;      // "a100-sxm-80g.matmul"
  std::string kind;      // measured | fitted | datasheet | derived
  std::string used_for;  // "linear layers"
  std::string note;
};

/// The profile entries used so far. An entry is known by its address, so that noting it again costs
/// a few compares; profiles and clusters must outlive the log.
class SourceLog {
 public:
  /// The entry called `owner`.`entry`.
  void use(const Provenance& provenance, std::string_view owner, std::string_view entry,
           std::string_view used_for);
  /// The same for a curve without a provenance of its own: its class of links has one.
  void use(const LinkClass& link, const LinkCurve& curve, std::string_view entry,
           std::string_view used_for);

  std::vector<SourceEntry> entries() const;  // in the order of their names, each once

 private:
  struct Use {
    const void* id;
    SourceEntry entry;
  };
  bool knows(const void* id) const;
  std::vector<Use> uses_;
};

/// How the ranks of one group lie on the cluster.
struct GroupLayout {
  std::int64_t ranks = 1;           // n
  std::int64_t nodes = 1;           // nodes that hold at least one of them
  std::int64_t ranks_per_node = 1;  // least number of them on any of those nodes: its NICs in use
  std::int64_t leaves = 1;          // leaf switches that the nodes hang from
  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;
  friend auto operator<=>(const GroupLayout&, const GroupLayout&) = default;
};

/// Where the two ends of a transfer lie.
enum class Distance : std::uint8_t { kSameDevice, kSameNode, kSameLeaf, kAcrossLeaves };

/// Seconds of one kernel on a device of this profile at `speed`, a factor on its compute rate (its
/// memory keeps its bandwidth). The forms are beside the curves in hardware_profile.h; a product in
/// fp32 runs at the fp32 rate, not tf32's.
Seconds kernel_time(const KernelWork& work, const HardwareProfile& hardware,
                    const SoftwareProfile& software, double speed, SourceLog& log);

/// Seconds in which the host issues one op.
Seconds launch_time(const HardwareProfile& hardware, const SoftwareProfile& software,
                    SourceLog& log);

/// Seconds of one collective of the ring algorithm, uncontended (LinkCurve has the form):
///   all_reduce                   steps 2(n-1), volume 2(n-1)/n S
///   all_gather, reduce_scatter   steps n-1,    volume (n-1)/n S      (S: the gathered size)
///   broadcast                    steps n-1,    volume S
///   all_to_all                   steps n-1,    volume (n-1)/n S      (S: sent per rank)
/// A group inside one node runs at the intra link's rate. Across nodes a ring advances at its
/// slowest edge: min(intra bandwidth, node bandwidth * ranks_per_node / devices_per_node
/// [/ oversubscription across leaves]), each with its efficiency. A chunk that goes once round
/// crosses nodes - 1 times between nodes and n - nodes times inside one, and pays the latency of
/// each: of the steps above, that share has the inter link's latency and the rest the intra link's.
/// Startup is the larger of the two. 0 for one rank.
Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log);

/// Seconds of one send/receive of `bytes`, both ends ready: startup + latency + bytes / bandwidth,
/// between nodes with the share of one device in the node's bandwidth.
Seconds transfer_time(Bytes bytes, Distance distance, const Cluster& cluster, SourceLog& log);

}  // namespace trainyard
