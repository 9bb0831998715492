// Seconds of collectives on the links of a cluster: which algorithm, its phases, and what each
// takes with nobody else on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"
#include "engine/graph/op_kind.h"

namespace trainyard {

/// How the ranks of one group lie on the cluster.
struct GroupLayout {
  std::int64_t ranks = 1;           // n
  std::int64_t nodes = 1;           // nodes that hold at least one of them
  std::int64_t ranks_per_node = 1;  // least number of them on any of those nodes: its NICs in use
  std::int64_t leaves = 1;          // leaf switches that the nodes hang from
  std::int64_t nics = 0;  // least number of NICs next to them on any node; 0: one per rank
  // Network::fabric_seconds() where the fabric needs routes: of the ring through all ranks, and of
  // the worst round in which everybody sends to another (Network's fabrics without such links: 0).
  double fabric_ring = 0;
  double fabric_spread = 0;
  std::int32_t routes =
      -1;  // index into Folds::routes: what the links on its ways take; -1: not asked
  bool beyond_pairs = false;  // of NVLink bridges: ranks on a node are of several
  // Where an all_to_all is among several ranks on several nodes (Network::pair_loads()):
  std::int64_t most_per_node = 0;  // m: most ranks on any node; 0: ranks_per_node
  std::int64_t nic_messages = 0;   // P: most that one NIC carries each way; 0: as on equal nodes
  double fabric_pairs = 0;         // as fabric_ring, of all pairs at once
  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;
  friend auto operator<=>(const GroupLayout&, const GroupLayout&) = default;
};

/// Which members of a group of n send to which, all at the same time.
enum class EdgeShape : std::uint8_t {
  kRing,       // i to i + 1, the last to the first
  kInnerRing,  // such a ring among the members of each node
  kOuterRing,  // such a ring among the members that are k-th on their nodes, for every k
  kExchange,   // i and i xor distance, both ways
  kTreeUp,     // i to i - distance, where i is an odd multiple of distance
  kTreeDown,   // back
  kShift,      // i to i + 1, then to i + 2, ...: `steps` of them
  kPairs,      // everybody to everybody else
  kChain       // i to i + 1, not the last
};

/// A part of a collective: `steps` messages on each edge, one after the other.
struct CollectivePhase {
  EdgeShape shape = EdgeShape::kRing;
  std::int64_t distance = 1;
  std::int64_t steps = 1;
  double bytes = 0;         // of one message
  Seconds latency = 0;      // of all steps; the call's startup is in the first phase's
  Seconds transfer = 0;     // of all steps, uncontended
  std::int64_t chunks = 0;  // messages of each edge of a pipelined chain; 0: one per step
};

struct AllReduceAlgorithm;  // all_reduce_algorithm.h

/// What runs for an all_reduce: the algorithm that the cluster says, which gives way in groups that
/// it is not made for; with `auto` the fastest uncontended one, of those that take equally long the
/// first. "ring" where the cluster says nothing.
const AllReduceAlgorithm& algorithm_of(Bytes bytes, const GroupLayout& group,
                                       const Cluster& cluster);

/// Bytes that each edge of a phase carries: a message per step; but a shift takes another edge each
/// step, and of a pipelined chain each edge rests while the pipeline fills and drains.
double edge_bytes(const CollectivePhase& phase);

/// Whether such a collective may go over other edges than those of the ring through all ranks, so
/// that it needs GroupLayout::fabric_spread.
bool leaves_ring(OpKind kind, const Cluster& cluster);

/// Pieces of a broadcast or reduce among n ranks, which is a pipelined ring: as many as are
/// fastest, about sqrt((n-2) S / (alpha B)), at most 1,024. NCCL comes near them by its protocols,
/// whose pieces go from 128 bytes (LL128) to 512 KiB per channel (Simple). Which edge of the ring
/// is left out, the root decides; the links of the edge from the last rank to the first are counted
/// as those. `whole`: S/B.
std::int64_t broadcast_chunks(std::int64_t ranks, Seconds whole, Seconds alpha);

/// One collective, uncontended, as its phases in order, an all_reduce's by algorithm_of(). With
/// alpha the latency of a step, B the bandwidth of one direction, n ranks, S bytes (of the buffer;
/// the gathered size for all_gather and reduce_scatter; sent per rank for all_to_all and
/// ring_shift):
///
///   all_reduce  ring              2(n-1) alpha + 2(n-1)/n S/B
///               tree              2 ceil(log2 n) (alpha + S/B)
///               halving-doubling  2 log2 n alpha + 2(n-1)/n S/B
///               hierarchical      reduce_scatter in each node, ring of S/local between nodes,
///                                 all_gather
///               double-tree       2 (local-1 + ceil(log2 nodes)) alpha + 2(n-1)/n S/B
///               nvls              2 alpha + (n+1)/n S/B, one node
///               nvls-tree         2 (1 + ceil(log2 nodes)) alpha + the larger of nvls's transfer
///                                 in a node and 2(nodes-1)/nodes S/B through the NICs of a node
///               sharp             4 alpha + the larger of nvls's transfer in a node and S/B
///                                 through the NICs; with one rank per node 2 alpha + S/B
///   all_gather, reduce_scatter    (n-1) alpha + (n-1)/n S/B
///   all_to_all  pairwise          (n-1) (alpha + S/(nB)), in one node or with one rank per node
///               else              (n-r) alpha + (r-1) alpha of the node
///                                 + S/n max(P/(B of a NIC), (m-1)/(B of the node))
///   ring_shift                    alpha + S/B, whichever way round: links carry both at once
///   broadcast, reduce   of c chunks  (n-2+c) (alpha + S/(cB)), c by broadcast_chunks()
///
/// LinkCurve says what curves add. A group inside one node runs at the intra link's rate (that of
/// the PCIe uplink, if less, where it spans several switches). Across nodes a ring advances at its
/// slowest edge: the intra link, or the node's NICs next to the group's ranks together, or the
/// trunk of a leaf. A chunk that goes once round crosses nodes - 1 times between nodes and n -
/// nodes times inside one, and pays the latency of each: of the steps above, that share has the
/// inter link's latency. Without peer access each edge passes the memory of its socket twice, and
/// all edges of a node share it. Other algorithms between nodes send over the NIC next to each
/// rank, at the inter link's latency. Startup is the larger of the two. Empty for one rank.
///
/// An all_to_all is sends and receives of S/n between all pairs at once, as NCCL groups them. Of
/// the n-1 that a rank sends, r-1 stay among the r ranks of its node and n-r leave it. So a NIC
/// next to k of these carries k(n-r) each way, the port of a device at most m-1, where m is the
/// most on a node, and the trunk of a leaf with p ranks p(n-p). P is the largest k(n-r), on any
/// node: with as many ranks on each and a NIC for each it is n-r. On rails a NIC sends what goes to
/// ranks of its own rail instead, r times their number on other nodes. The busiest link decides:
/// fair shares give each of its messages an equal part and no other message less (any other link
/// has more to give per message), so all have ended when it has carried its own. In one node, and
/// with one rank on each, every round of a pairwise exchange loads each port or NIC once, and
/// rounds one after the other take as long; links of the fabric are as slow as in the worst of
/// them.
std::vector<CollectivePhase> collective_phases(OpKind kind, Bytes bytes, const GroupLayout& group,
                                               const Cluster& cluster, SourceLog& log);

/// Seconds of all phases. 0 for one rank.
Seconds collective_time(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster,
                        SourceLog& log);

}  // namespace trainyard
