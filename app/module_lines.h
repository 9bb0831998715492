// The modules of a model with what they cost and where they lie, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/partition/model_modules.h"
#include "engine/partition/tree_partition.h"
#include "engine/passes/training_graph.h"
#include "engine/planner/op_times.h"

namespace trainyard {

/// What the forward of one microbatch takes of each module by itself: bytes of parameters, those of
/// activations that the backward reads, and the time of its kernels, by the cost model or
/// `measured`. `modules`: of the graph of `training`, which has one stage.
std::vector<TracedModule> trace_modules(const ModelModules& modules, const TrainingGraph& training,
                                        const HardwareProfile& hardware,
                                        const SoftwareProfile& software,
                                        const OpTimes* measured = nullptr);

/// The tree down to modules of one device, siblings on one device as one line.
std::vector<std::string> tree_lines(const ModelModules& modules,
                                    const std::vector<TracedModule>& traced,
                                    const ModuleNodes& nodes, const TreePartition& partition);

/// What lies on each device. Loads are of modules by themselves, so that they add up to 1; without
/// `timed` each is one of the number of modules.
std::vector<std::string> device_lines(const ModelModules& modules,
                                      const std::vector<TracedModule>& traced,
                                      const std::vector<std::int32_t>& device, std::int64_t devices,
                                      double memory_weight, bool timed);

}  // namespace trainyard
