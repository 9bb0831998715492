// What every executor that does not run real kernels needs to know about durations: one table of
// kernel times, host launch times, and the cluster whose links time the rest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/cost_model.h"
#include "engine/exec/op_work.h"
#include "engine/program/program.h"

namespace trainyard {

struct OpCost {
  Seconds kernel = 0;  // on the device; 0 for communication
  Seconds launch = 0;  // on the host
  Flop flop = 0;
  Bytes bytes = 0;
};

struct Costs {
  // By compute rate of a device (1: as the profile says): [segment][op].
  std::map<double, std::vector<std::vector<OpCost>>> ops;
  Cluster cluster;
  double tensor_exposed = 1;  // share of a tensor-parallel collective's time that is left (SoftwareProfile)
  Slowdown slowdown;  // of kernels and communication side by side
  bool host_computes = false;  // HardwareProfile's: the host waits for every kernel
};

/// Costs of every op of `program` for every speed that a device of the cluster has.
Costs make_costs(const Program& program, const HardwareProfile& hardware,
                 const SoftwareProfile& software, const Cluster& cluster, SourceLog& log);

}  // namespace trainyard
