// A model's modules as the tree that SageMaker divides: modules that share a parameter are one
// node, and each node has a cost.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace trainyard {

inline constexpr std::size_t kNoParent = std::numeric_limits<std::size_t>::max();

/// A tree of nodes with costs, in execution order: node 0 is the root, parents stand before their
/// children.
struct ModuleTree {
  std::vector<std::size_t> parent;  // kNoParent: the root
  std::vector<double> cost;         // of a node with all below it, >= that of its children
  std::vector<double> own;          // of a node by itself
};

/// One module, as tracing or a cost model measures it.
struct TracedModule {
  std::size_t parent = kNoParent;
  double parameters = 0;  // its number of them, any unit
  double activation = 0;  // what its forward keeps, the same unit
  double time = 0;        // of its forward, any unit
};

/// Whether figures of a module are its own, or have those of the modules below it in them.
enum class FiguresOf { kModule, kSubtree };

struct ModuleNodes {
  ModuleTree tree;
  std::vector<std::size_t> node_of;  // [module]
};

/// The nodes of `modules`, which are in execution order, the root first and parents before their
/// children. `same[m]`: the first module that m shares a parameter with, or m. Nodes are numbered
/// by their first modules; of the nodes that its modules' parents are in a node hangs below the
/// first. Cost of a module: memory_weight w/w(root) + (1 - memory_weight) t/t(root), w its
/// parameters and activation, t its time, each with all below it; the root's zero counts as no
/// cost. With `timed` false t is the number of modules below. A node costs what its modules and the
/// nodes below it cost, over the root's. Karakus et al., Amazon SageMaker Model Parallelism
/// (arXiv:2111.05972), C.2 and equation 1, each part divided by the root's before they are mixed.
ModuleNodes module_nodes(const std::vector<TracedModule>& modules,
                         const std::vector<std::size_t>& same, double memory_weight, bool timed,
                         FiguresOf figures);

}  // namespace trainyard
