// The phases that collectives are made of, each in one group with nobody else on the way;
// collective_time.h has their closed forms.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/collective_time.h"
#include "engine/graph/op_kind.h"

namespace trainyard {

bool is_power_of_two(std::int64_t n);

/// Curve of a collective inside a node.
const LinkCurve& inside_curve(OpKind kind, const Cluster& cluster);

/// Its numbers for `ranks` of the group on a node: two that no bridge joins are no bridged pair.
LinkCurve::Group rates_inside(const LinkCurve& curve, const GroupLayout& group, std::int64_t ranks);

/// Phases of one collective in one group; startup is left to the caller.
class CollectivePhases {
 public:
  /// ASSUME: `group` and `cluster` outlive this.
  CollectivePhases(OpKind kind, Bytes bytes, const GroupLayout& group, const Cluster& cluster);

  void ring(std::int64_t steps);
  void ring_all_reduce() { ring(2 * (group_.ranks - 1)); }
  /// Two trees over the nodes, each for half of the buffer, in which every node is a leaf of one,
  /// and a chain through each node; in so many pieces that all links are busy all the time. Each
  /// node receives and sends as much as in a ring, so that the ring's edges stand for the trees'.
  void double_tree();
  /// Each device has its part of the buffer added up by the switches, which read it from all, and
  /// writes the sum, which they copy to all: S for the others' parts and S/n for its own, in each
  /// direction.
  void in_switch();
  /// in_switch() in every node, and between the nodes a double tree (levels 2 log2 nodes up and
  /// down, nearly 2 S through the NICs of a node) or switches that add up too (one level, S).
  void in_switch_and_tree() { in_switch_across(false); }
  void in_switch_and_network() { in_switch_across(true); }
  /// ceil(log2 n) levels up to rank 0 and as many down, the whole buffer on each.
  void tree();
  /// Halves are exchanged with ever nearer partners, then put together again with ever farther
  /// ones.
  void halving_doubling();
  void hierarchical();
  void pairwise();
  /// The same where some messages stay inside a node and others leave it.
  void all_pairs();
  void shift();  // once to the next
  void chain();

  std::vector<CollectivePhase> take() { return std::move(phases_); }

 private:
  void in_switch_across(bool network_adds);
  void level(EdgeShape shape, std::int64_t distance, double part);

  std::int64_t nics() const;
  bool uniform() const { return group_.ranks == group_.nodes * group_.ranks_per_node; }
  std::int64_t most_per_leaf() const { return (group_.ranks + group_.leaves - 1) / group_.leaves; }
  Seconds latency(bool apart) const;
  /// Latency of a step to a rank of the same node, in a ring or chain through all.
  Seconds rank_latency() const;
  /// Edges of a ring that pass the memory of one socket, or of a round in which everybody sends.
  std::int64_t staged_edges(std::int64_t ranks) const;

  // Seconds per byte.
  /// `crossing`: edges from one socket to another.
  double inside(std::int64_t ranks, std::int64_t crossing = 1) const;
  /// Where any of them may send to the other socket.
  double inside_all(std::int64_t ranks) const { return inside(ranks, (ranks + 1) / 2); }
  /// `fabric`: that of the busiest link between the NICs.
  double between(std::int64_t nics, std::int64_t edges, double fabric) const;
  double switch_rate(std::int64_t ranks) const;
  /// On each edge of a ring through all ranks, which goes at the pace of the slowest.
  double slowest_edge() const;
  /// Every rank sends over the NIC next to it, which others of its node may share. `edges` leave a
  /// leaf.
  double own_nic(std::int64_t edges) const;
  /// For each byte of a message between nodes, while all pairs send one.
  double pairs_between() const;

  Bytes bytes_;
  double size_;
  const GroupLayout& group_;
  const Cluster& cluster_;
  const LinkCurve& inside_;
  std::vector<CollectivePhase> phases_;
};

}  // namespace trainyard
