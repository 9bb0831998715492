#include "engine/passes/transfer_routes.h"

#include <algorithm>

#include "engine/cluster/peer_access.h"
#include "engine/passes/plan_mesh.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

std::string between(std::int64_t a, std::int64_t b) {
  return "ranks " + std::to_string(std::min(a, b)) + " and " + std::to_string(std::max(a, b));
}

/// Adds what one pair of ranks says to what others have said.
void see_pair(const Cluster& cluster, std::int64_t a, std::int64_t b, PipelineLink& link,
              std::string& no_rdma) {
  if (a / cluster.devices_per_node == b / cluster.devices_per_node) {
    link.within_node = true;
    if (!link.obstacle.empty() || joined_by_nvlink(cluster, a, b)) return;
    link.obstacle = between(a, b) +
                    " lie in one node, and no NVLink joins them (links: " + cluster.intra.kind +
                    ")";
    return;
  }
  link.between_nodes = true;
  if (!no_rdma.empty() || has_rdma(cluster)) return;
  no_rdma = between(a, b) + " lie in different nodes, whose network (" + cluster.inter.kind +
            ") has no RDMA";
}

}  // namespace

Numbered<PipelineLink> pipeline_links(const Cluster& cluster, const ParallelConfig& parallel) {
  if (parallel.d2d_buffer == 0 || cluster.of_cpus || parallel.pipeline == 1) return {};
  const DeviceMesh mesh = mesh_of(parallel);
  const Placement placement = make_placement(mesh, parallel.placement);
  const AxisId stages = stage_axis(mesh);
  Numbered<PipelineLink> links(parallel.pipeline);
  Numbered<std::string> no_rdma(parallel.pipeline);
  for (std::int64_t i = 0; i < mesh.num_ranks(); ++i) {
    const Coordinate here = coordinate_of(mesh, i);
    const std::int32_t from = here[stages];
    Coordinate next = here;
    next[stages] = (from + 1) % parallel.pipeline;
    see_pair(cluster, rank_at(placement, mesh, here), rank_at(placement, mesh, next), links[from],
             no_rdma[from]);
  }
  for (const std::int64_t rank : links.keys()) {
    if (links[rank].obstacle.empty()) links[rank].obstacle = no_rdma[rank];
  }
  return links;
}

const PipelineLink& link_between(const Numbered<PipelineLink>& links, std::int32_t from,
                                 std::int32_t to) {
  const bool next = to == (from + 1) % static_cast<std::int32_t>(links.size());
  return links[next ? from : to];
}

std::optional<std::pair<std::int32_t, std::int32_t>> by_host_in_node(
    const Program& program, const Numbered<PipelineLink>& links) {
  if (links.empty()) return std::nullopt;
  const auto ranks = static_cast<std::int32_t>(links.size());
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    for (const Call& call : program.body[rank].calls) {
      const ProgramOp& op = program.segments[call.segment].ops.front();
      if (op.kind != OpKind::kRecv || moved_value(program, op).space != Space::kHost) continue;
      const std::int32_t offset = program.transfers[op.transfer].offset;
      const std::int32_t from = (rank + offset + ranks) % ranks;
      if (link_between(links, from, rank).within_node) return std::pair(from, rank);
    }
  }
  return std::nullopt;
}

bool BufferSlots::has_free(std::int64_t at) {
  in_use_.erase(in_use_.begin(), in_use_.upper_bound(at));
  return static_cast<std::int64_t>(in_use_.size()) < slots_;
}

void BufferSlots::take(std::int64_t until) { in_use_.insert(until); }

}  // namespace trainyard
