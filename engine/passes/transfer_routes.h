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
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace trainyard {

/// Between the ranks at one pipeline coordinate and those at the next one, cyclically.
struct PipelineLink {
  bool within_node = false;    // some pair
  bool between_nodes = false;  // some pair
  std::string obstacle;        // (b) or (c): why no pair sends direct; empty: they do
  friend bool operator==(const PipelineLink&, const PipelineLink&) = default;
};

/// Link of two neighbours, in either order. `links`: of pipeline_links().
const PipelineLink& link_between(const Numbered<PipelineLink>& links, std::int32_t from,
                                 std::int32_t to);

/// [pipeline rank]; empty where the study has no buffer, or (a) no use for one. O(ranks).
Numbered<PipelineLink> pipeline_links(const Cluster& cluster, const ParallelConfig& parallel);

/// Sender and receiver, as pipeline ranks, of a transfer of the Program that goes by the host
/// inside a node; nullopt: none does.
std::optional<std::pair<std::int32_t, std::int32_t>> by_host_in_node(
    const Program& program, const Numbered<PipelineLink>& links);

/// Slots of one rank's buffer, in the order in which they are asked for. Places are counted in
/// actions of the rank: what is issued in front of action k has place k.
class BufferSlots {
 public:
  explicit BufferSlots(std::int64_t slots = 0) : slots_(slots) {}
  /// Whether a slot is free at place `at`, which is not less than any before.
  bool has_free(std::int64_t at);
  /// Takes one that is free again from place `until` on.
  void take(std::int64_t until);

 private:
  std::int64_t slots_;
  std::multiset<std::int64_t> in_use_;  // until where
};

}  // namespace trainyard
