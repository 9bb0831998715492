// The modules of a tree on the devices of a pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/partition/module_tree.h"

namespace trainyard {

using DeviceSet = std::shared_ptr<const std::vector<std::int64_t>>;  // ascending

struct TreePartition {
  std::vector<std::int64_t> device;  // [node]
  std::vector<DeviceSet> devices;    // [node]: those that run it and what is below it
  std::vector<double> load;          // [device]: own costs of its nodes
};

/// Breadth first, a node's devices are divided among its children: these are cut into as many
/// segments as it has devices, with the least largest cost, and devices go to segments by D'Hondt's
/// rule. A segment of several nodes and devices is divided so again; one without a device gets the
/// first of those that were divided. A node runs on the first of its devices. Karakus et al.
/// (arXiv:2111.05972), algorithms 1 to 3. O(nodes log(nodes) x devices) for trees of equal costs.
TreePartition partition_tree(const ModuleTree& tree, std::int64_t num_devices);

}  // namespace trainyard
