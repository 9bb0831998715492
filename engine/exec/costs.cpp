#include "engine/exec/costs.h"

#include <set>

namespace trainyard {

Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log) {
  Costs costs;
  costs.cluster = cluster;
  std::set<double> speeds = {1.0};
  for (const auto& [device, factor] : cluster.speed) speeds.insert(factor);
  const Seconds launch = launch_time(hardware, software, log);
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
          cost.kernel = kernel_time(work, hardware, software, speed, log);
          cost.launch = launch;
        }
        segments[s].push_back(cost);
      }
    }
  }
  return costs;
}

}  // namespace trainyard
