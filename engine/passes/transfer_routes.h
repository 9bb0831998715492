// Pipeline transfers with `parallel.d2d_buffer`: from device to device through persistent buffers,
// or through the memory of the hosts. Karakus et al., Amazon SageMaker Model Parallelism
// (arXiv:2111.05972), appendix G.
//
//   direct        recv -> slot ; device_copy slot -> tensor ; free slot     of the receiver's
//   buffer;
//                 between nodes the sender does so too: device_copy tensor -> slot ; send slot
//   by the host   d2h copy ; send ; recv ; h2d copy                         values and pools in
//   host space
//
// A transfer goes by the host exactly when
//   (a) the devices are CPUs: there is nothing to copy and no buffer, the Program is that without
//   the key; (b) two ranks that it joins lie in one node, and no NVLink joins them; (c) two ranks
//   that it joins lie in different nodes, whose network has no RDMA; (d) the receiver's buffer, or
//   between nodes the sender's, has no free slot.
// All ranks at one pipeline coordinate run one list, so one pair that (b) or (c) is true of takes
// its boundary along: here the placement of ranks is part of what a Program depends on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace trainyard {

/// Between the ranks at two pipeline coordinates.
struct PipelineLink {
  bool within_node = false;    // some pair
  bool between_nodes = false;  // some pair
  std::string obstacle;        // (b) or (c): why no pair sends direct; empty: they do
  friend bool operator==(const PipelineLink&, const PipelineLink&) = default;
};

/// Links of all pairs of pipeline ranks that may send each other something.
class PipelineLinks {
 public:
  /// Where the study has no buffer, or (a) no use for one.
  bool empty() const { return links_.empty(); }
  /// In either order.
  const PipelineLink& between(std::int32_t a, std::int32_t b) const;
  PipelineLink& add(std::int32_t a, std::int32_t b);
  friend bool operator==(const PipelineLinks&, const PipelineLinks&) = default;

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, PipelineLink> links_;  // the lesser first
};

/// Neighbours, the last and the first among them, in O(ranks); where stages lie on ranks as listed,
/// or modules on devices, all pairs.
PipelineLinks pipeline_links(const Cluster& cluster, const Plan& plan);

/// Sender and receiver, as pipeline ranks, of a transfer of the Program that goes by the host
/// inside a node; nullopt: none does.
std::optional<std::pair<std::int32_t, std::int32_t>> by_host_in_node(const Program& program,
                                                                     const PipelineLinks& links);

/// Slots of one rank's buffer. Places are counted in actions of the rank: what is issued in front
/// of action k has place k. They may be asked for in any order: where a tensor goes past stages, an
/// earlier one may be sent after a later one.
class BufferSlots {
 public:
  explicit BufferSlots(std::int64_t slots = 0) : slots_(slots) {}
  /// Whether one is free at all places [from, until).
  bool has_free(std::int64_t from, std::int64_t until) const;
  void take(std::int64_t from, std::int64_t until);

 private:
  std::int64_t in_use_at(std::int64_t place) const;

  std::int64_t slots_;
  std::map<std::int64_t, std::int64_t> in_use_;  // how many from each of these places on
};

}  // namespace trainyard
