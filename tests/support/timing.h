// What tests of executors time with: costs filled in by hand, and links whose times are round
// numbers or nothing at all.
#pragma once

#include <string>

#include "engine/exec/analytic_executor.h"

namespace trainyard {

/// Links that take no time. `num_devices` in nodes of `per_node`.
Cluster free_links(std::int64_t num_devices, std::int64_t per_node = 8);

/// Inside a node 1 s and 1 byte/s per device; between nodes 10 s and 2 bytes/s per node of 2
/// devices, so 1 byte/s for each of them.
Cluster slow_links(std::int64_t num_devices);

/// Kernels and launches that take no time; messages as large as they are.
Costs zero_costs(const Program& program, const Cluster& cluster);

/// The cost of op `op` of the segment called `segment`, on devices of speed 1.
OpCost& cost_of(Costs& costs, const Program& program, const std::string& segment, std::size_t op);

/// Parses and verifies; throws std::logic_error with the violation.
Program verified(const std::string& text);

Trace run(const Program& program, const Costs& costs, const RunOptions& options = {});

}  // namespace trainyard
