// The modules of a graph as SageMaker sees those of a model: by their paths, in the order in which
// they are first called, and the devices that they are assigned to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/partition/module_tree.h"

namespace trainyard {

struct ModelModules {
  std::vector<std::string> path;     // [module]; the first is the model, whose path is empty
  std::vector<std::size_t> parent;   // [module]; kNoParent: the model
  std::vector<std::size_t> same;     // [module]: the first that reads a parameter of it, or itself
  Indexed<OpId, std::size_t> of_op;  // the module by which an op runs
};

/// Parents stand before their children. The loss is computed by the model itself, as frameworks'
/// models do, not by a module of its own. O(ops x depth).
ModelModules model_modules(const Graph& graph);

using ModuleAssignment = std::vector<std::pair<std::string, std::int32_t>>;  // pattern -> device

/// [module] its device: of the pattern with the most characters beside * that matches it or a
/// module of its node; else of the node's parent; of the model `fallback`. Infeasible where a
/// pattern matches nothing, or two that are as specific disagree.
std::variant<std::vector<std::int32_t>, Infeasible> assigned_devices(const ModelModules& modules,
                                                                     const ModuleAssignment& assign,
                                                                     std::int32_t fallback);

/// The shortest assignment that assigned_devices() makes `device` of, with device[0] as fallback.
ModuleAssignment assignment_of(const ModelModules& modules,
                               const std::vector<std::int32_t>& device);

}  // namespace trainyard
