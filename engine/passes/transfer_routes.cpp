#include "engine/passes/transfer_routes.h"

#include <algorithm>
#include <iterator>

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

const PipelineLink& PipelineLinks::between(std::int32_t a, std::int32_t b) const {
  return links_.at(std::minmax(a, b));
}

PipelineLink& PipelineLinks::add(std::int32_t a, std::int32_t b) {
  return links_[std::minmax(a, b)];
}

PipelineLinks pipeline_links(const Cluster& cluster, const Plan& plan) {
  const ParallelConfig& parallel = plan.parallel;
  if (parallel.d2d_buffer == 0 || cluster.of_cpus || parallel.pipeline == 1) return {};
  const DeviceMesh mesh = mesh_of(parallel);
  const Placement placement = make_placement(mesh, parallel.placement);
  const AxisId stages = stage_axis(mesh);
  const std::int32_t ranks = parallel.pipeline;
  // Modules send straight to those that read, in a chain of devices, too.
  const bool neighbours = plan.partition.on.empty() && plan.partition.method != "smp";
  const std::int32_t furthest = neighbours ? 1 : ranks / 2;
  PipelineLinks links;
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> no_rdma;
  for (std::int64_t i = 0; i < mesh.num_ranks(); ++i) {
    const Coordinate here = coordinate_of(mesh, i);
    const std::int32_t from = here[stages];
    for (std::int32_t up = 1; up <= furthest; ++up) {
      Coordinate there = here;
      const std::int32_t to = there[stages] = (from + up) % ranks;
      see_pair(cluster, rank_at(placement, mesh, here), rank_at(placement, mesh, there),
               links.add(from, to), no_rdma[std::minmax(from, to)]);
    }
  }
  for (const auto& [ends, why] : no_rdma) {
    PipelineLink& link = links.add(ends.first, ends.second);
    if (link.obstacle.empty()) link.obstacle = why;
  }
  return links;
}

std::optional<std::pair<std::int32_t, std::int32_t>> by_host_in_node(const Program& program,
                                                                     const PipelineLinks& links) {
  if (links.empty()) return std::nullopt;
  const std::int32_t ranks = num_pipeline_ranks(program.mesh);
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    for (const Call& call : program.body[rank].calls) {
      const std::vector<ProgramOp>& ops = program.segments[call.segment].ops;
      if (ops.empty()) continue;  // of a stage that passes on what it is given
      const ProgramOp& op = ops.front();
      if (op.kind != OpKind::kRecv || moved_value(program, op).space != Space::kHost) continue;
      const std::int32_t offset = program.transfers[op.transfer].offset;
      const std::int32_t from = (rank + offset + ranks) % ranks;
      if (links.between(from, rank).within_node) return std::pair(from, rank);
    }
  }
  return std::nullopt;
}

std::int64_t BufferSlots::in_use_at(std::int64_t place) const {
  const auto behind = in_use_.upper_bound(place);
  return behind == in_use_.begin() ? 0 : std::prev(behind)->second;
}

bool BufferSlots::has_free(std::int64_t from, std::int64_t until) const {
  std::int64_t most = in_use_at(from);
  for (auto it = in_use_.upper_bound(from); it != in_use_.end() && it->first < until; ++it)
    most = std::max(most, it->second);
  return most < slots_;
}

void BufferSlots::take(std::int64_t from, std::int64_t until) {
  for (const std::int64_t place : {from, until}) in_use_.try_emplace(place, in_use_at(place));
  for (auto it = in_use_.find(from); it->first < until; ++it) ++it->second;
}

}  // namespace trainyard
