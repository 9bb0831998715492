#include "tests/support/timing.h"

#include <array>
#include <limits>
#include <stdexcept>

#include "engine/program/program_text.h"
#include "engine/program/verify.h"

namespace trainyard {

Cluster free_links(std::int64_t num_devices, std::int64_t per_node) {
  Cluster cluster;
  cluster.num_devices = num_devices;
  cluster.devices_per_node = per_node;
  cluster.num_nodes = (num_devices + per_node - 1) / per_node;
  cluster.intra.bandwidth = cluster.inter.bandwidth = std::numeric_limits<double>::infinity();
  return cluster;
}

Cluster slow_links(std::int64_t num_devices) {
  Cluster cluster = free_links(num_devices, 2);
  cluster.intra.bandwidth = 1;
  cluster.intra.collective.latency = cluster.intra.point_to_point.latency = 1;
  cluster.inter.bandwidth = 2;
  cluster.inter.collective.latency = cluster.inter.point_to_point.latency = 10;
  return cluster;
}

Costs zero_costs(const Program& program, const Cluster& cluster) {
  Costs costs;
  costs.cluster = cluster;
  auto& segments = costs.ops[1.0];
  for (const Segment& segment : program.segments) {
    auto& ops = segments.emplace_back();
    for (const ProgramOp& op : segment.ops) {
      OpCost& cost = ops.emplace_back();
      if (is_communication(op.kind)) cost.bytes = message_bytes(program, op);
    }
  }
  return costs;
}

OpCost& cost_of(Costs& costs, const Program& program, const std::string& segment, std::size_t op) {
  for (const SegmentId s : program.segments.keys()) {
    if (program.segments[s].name == segment) return costs.ops.at(1.0)[s].at(op);
  }
  throw std::logic_error("no segment " + segment);
}

Program verified(const std::string& text) {
  Program program = parse_program(text, "test");
  if (const auto problem = find_violation(program)) throw std::logic_error(*problem);
  return program;
}

Trace run(const Program& program, const Costs& costs, const RunOptions& options) {
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  return AnalyticExecutor().run(jobs, costs, options);
}

}  // namespace trainyard
