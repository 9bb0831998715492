#include "engine/exec/costs.h"

#include <set>

namespace trainyard {

namespace {

/// Elements of gradients that `op` adds to.
std::int64_t gradient_elements(const Program& program, const ProgramOp& op) {
  std::int64_t elements = 0;
  for (const Operand& operand : op.accumulates) {
    const Value& value = program.values[static_cast<std::size_t>(operand.value)];
    if (value.memory == MemoryClass::kGradient) elements += size_in_bytes(value) / size_in_bytes(value.dtype);
  }
  return elements;
}

}  // namespace

Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log) {
  Costs costs;
  costs.cluster = cluster;
  costs.tensor_exposed = tensor_exposed(software, log);
  costs.slowdown = hardware.slowdown;
  costs.host_computes = hardware.host_computes;
  if (costs.slowdown.any()) log.use(hardware.slowdown.provenance, hardware.name, "slowdown", "kernels and communication side by side");
  std::set<double> speeds = {1.0};
  for (const auto& [device, factor] : cluster.speed) speeds.insert(factor);
  const Seconds launch = launch_time(hardware, software, program.mesh[Axis::kTp], log);
  OpWork work_of(program);
  for (double speed : speeds) {
    auto& segments = costs.ops[speed];
    segments.resize(program.segments.size());
    for (std::size_t s = 0; s < program.segments.size(); ++s) {
      for (const ProgramOp& op : program.segments[s].ops) {
        OpCost cost;
        const KernelWork work = work_of(op);
        cost.flop = work.flop;
        cost.bytes = work.bytes;
        if (is_communication(op.kind)) {
          cost.launch = launch;
        } else if (work.cls != KernelClass::kNone) {
          cost.kernel = kernel_time(work, hardware, software, speed, log) +
                        gradient_copy_time(gradient_elements(program, op), hardware, software, log);
          cost.launch = launch;
        }
        segments[s].push_back(cost);
      }
    }
  }
  return costs;
}

}  // namespace trainyard
