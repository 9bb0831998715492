// How control goes through modules on several devices: the stages of a nested partition.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/partition/model_modules.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct ModuleWalk {
  Indexed<OpId, std::int32_t> stage;
  Numbered<std::int32_t> on;  // [stage] its device; neighbours differ
};

/// A stage for each run of consecutive ops on one device: children of a module on one device that
/// follow each other are asked as one, as a message that names a range of a sequence does. With
/// routing kParent control passes from one run to the next by the devices of the modules between
/// them in the tree, up to the module around both and down: a stage without an op where that one
/// does nothing itself. So n children on n other devices are 2n transfers, and n + 1 with kDirect.
/// `device`: [module]. Karakus et al. (arXiv:2111.05972), 3.2.4 and 4.4.
ModuleWalk walk_modules(const ModelModules& modules, const std::vector<std::int32_t>& device,
                        PartitionConfig::Routing routing);

}  // namespace trainyard
