#include "engine/exec/costs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/cost/host_times.h"
#include "engine/exec/host_work.h"
#include "engine/program/no_ops.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// Elements of gradients that `op` adds to.
std::int64_t gradient_elements(const Program& program, const ProgramOp& op) {
  std::int64_t elements = 0;
  for (const Operand& operand : op.accumulates) {
    const Value& value = program.values[operand.value];
    if (value.memory == MemoryClass::kGradient)
      elements += size_in_bytes(value) / size_in_bytes(value.dtype);
  }
  return elements;
}

/// Ranks that share a layer, those of the largest collective of a forward: launching gets slower
/// with them. [pipeline rank]; one number where all have the same mesh.
Numbered<std::int64_t> ranks_of_layer(const Program& program,
                                      const Indexed<SegmentId, std::int32_t>& pipeline_ranks) {
  const bool alike = unlike_axis(program.mesh) == kNoAxis;
  Numbered<std::int64_t> out(alike ? 1 : num_pipeline_ranks(program.mesh), 1);
  for (const SegmentId s : program.segments.keys()) {
    if (program.segments[s].phase != Phase::kForward) continue;
    std::int64_t& most = out[pipeline_ranks[s]];
    for (const ProgramOp& op : program.segments[s].ops) {
      const bool of_layer =
          is_collective(op.kind) && op.group != kNoIndex &&
          program.values[op.writes[0].value].memory != MemoryClass::kParameter;  // not a gather
      if (!of_layer) continue;
      const Axes& axes = program.groups[op.group].axes;
      most = std::max(most, group_size(program.mesh, axes, pipeline_ranks[s]));
    }
  }
  return out;
}

/// Ranks that share a host.
std::int64_t ranks_of_node(const Program& program, const Cluster& cluster) {
  return std::min(cluster.devices_per_node, program.mesh.num_ranks());
}

/// Costs the ops of one segment after another.
class SegmentCoster {
 public:
  SegmentCoster(const Program& program, const HardwareProfile& hardware,
                const SoftwareProfile& software, const Cluster& cluster, SourceLog& log)
      : program_(program),
        cluster_(cluster),
        hardware_(hardware),
        software_(software),
        log_(log),
        work_of_(program),
        host_work_(program, software, log),
        pipeline_ranks_(pipeline_ranks_of_segments(program)) {
    for (const std::int64_t ranks : ranks_of_layer(program, pipeline_ranks_))
      launch_.push_back(launch_time(hardware, software, ranks, log));
  }

  std::vector<OpCost> costs(SegmentId id, double speed) {
    const Segment& segment = program_.segments[id];
    std::vector<OpCost> out;
    out.reserve(segment.ops.size());
    bool first = true;  // of a transfer
    host_work_.enter(segment, pipeline_ranks_[id]);
    const Seconds launch = launch_[pipeline_ranks_[id]];
    for (const ProgramOp& op : segment.ops) {
      OpCost& cost = out.emplace_back();
      const KernelWork work = work_of_(op);
      cost.flop = work.flop;
      cost.bytes = work.bytes;
      if (has_no_peers(program_, op, pipeline_ranks_[id])) continue;
      if (moves_data(op.kind)) {
        cost.launch = launch;
        if (is_transfer(op.kind) && op.stream != StreamId::kNorm)
          cost.launch += message_time(software_, std::exchange(first, false), log_);
      } else if (op.stream == StreamId::kHost && cluster_.host.update_rate > 0) {
        const std::int64_t parameters = num_elements(program_.values[op.writes[0].value].dims);
        cost.kernel =
            host_update_time(parameters, ranks_of_node(program_, cluster_), cluster_, log_);
        cost.launch = launch;
      } else if (work.cls != KernelClass::kNone) {
        cost.kernel =
            kernel_time(work, hardware_, software_, speed, log_) +
            gradient_copy_time(gradient_elements(program_, op), hardware_, software_, log_);
        cost.launch = launch + host_work_.before(op);
      }
    }
    return out;
  }

 private:
  const Program& program_;
  const Cluster& cluster_;
  const HardwareProfile& hardware_;
  const SoftwareProfile& software_;
  SourceLog& log_;
  Numbered<Seconds> launch_;  // [pipeline rank]
  OpWork work_of_;
  HostWork host_work_;
  Indexed<SegmentId, std::int32_t> pipeline_ranks_;
};

}  // namespace

const Costs& CostCache::make(const Program& program, const SharedSegments& shared,
                             const HardwareProfile& hardware, const SoftwareProfile& software,
                             const Cluster& cluster, SourceLog& log) {
  const Cluster& before = costs_.cluster;
  const bool again = segments_ != 0 && segments_ == shared.number &&
                     before.device == cluster.device && before.speed == cluster.speed &&
                     before.devices_per_node == cluster.devices_per_node &&
                     before.host.update_rate == cluster.host.update_rate &&
                     request_us_ == software.request_us && metadata_us_ == software.metadata_us;
  segments_ = 0;
  request_us_ = software.request_us;
  metadata_us_ = software.metadata_us;
  costs_.cluster = cluster;
  SegmentCoster coster(program, hardware, software, cluster, log);
  if (again) {
    for (auto& [speed, segments] : costs_.ops) {
      for (const SegmentId s : segments.keys()) {
        if (sized_segments_[s]) segments[s] = coster.costs(s, speed);
      }
    }
    log.use(sources_);
  } else {
    costs_.piece_sum = piece_sum_rate(hardware, software, log);
    costs_.slowdown = hardware.slowdown;
    costs_.host_computes = hardware.host_computes;
    costs_.host_link = hardware.host_link;
    if (costs_.slowdown.any())
      log.use(hardware.slowdown.provenance, hardware.name, "slowdown",
              "kernels and communication side by side");
    std::set<double> speeds = {1.0};
    for (const auto& [device, factor] : cluster.speed) speeds.insert(factor);
    costs_.ops.clear();
    for (const double speed : speeds) {
      auto& segments = costs_.ops[speed];
      for (const SegmentId s : program.segments.keys()) segments.push_back(coster.costs(s, speed));
    }
    sources_ = log.entries();
    sized_segments_.clear();
    for (const Segment& segment : program.segments) {
      sized_segments_.push_back(
          shared.number != 0 &&
          std::any_of(segment.ops.begin(), segment.ops.end(), [&](const ProgramOp& op) {
            return shared.is_sized(op) || binds_work(op.kind, program.attrs[op.attrs]);
          }));
    }
  }
  make_pieces(program, hardware, software, log);
  std::vector<double> speeds;
  for (const auto& [speed, segments] : costs_.ops) speeds.push_back(speed);
  costs_.works = make_work_table(program, speeds, [&](const KernelWork& work, double speed) {
    return kernel_time(work, hardware, software, speed, log);
  });
  segments_ = shared.number;
  return costs_;
}

void CostCache::make_pieces(const Program& program, const HardwareProfile& hardware,
                            const SoftwareProfile& software, SourceLog& log) {
  costs_.pieces.clear();
  if (!in_pieces(software, log)) return;
  for (const ProductBeside& product : find_lanes(program).products)
    costs_.pieces.push_back(piece_times(product.work, product.ranks, hardware, software, log));
}

Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log) {
  return CostCache().make(program, {}, hardware, software, cluster, log);
}

}  // namespace trainyard
