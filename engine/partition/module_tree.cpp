#include "engine/partition/module_tree.h"

#include <algorithm>

namespace trainyard {

namespace {

/// Each module's figure with those of all modules below it.
std::vector<double> with_all_below(const std::vector<TracedModule>& modules,
                                   std::vector<double> figures) {
  for (std::size_t m = modules.size(); m-- > 1;) figures[modules[m].parent] += figures[m];
  return figures;
}

/// Over the root's.
std::vector<double> over_root(std::vector<double> figures) {
  const double root = figures.front();
  for (double& figure : figures) figure = root > 0 ? figure / root : 0;
  return figures;
}

/// Figures of modules, each with those below it, by `figure` of a module by itself.
template <typename Figure>
std::vector<double> of_subtrees(const std::vector<TracedModule>& modules, FiguresOf figures,
                                Figure figure) {
  std::vector<double> out;
  for (const TracedModule& module : modules) out.push_back(figure(module));
  return over_root(figures == FiguresOf::kModule ? with_all_below(modules, std::move(out))
                                                 : std::move(out));
}

std::vector<double> numbers_below(const std::vector<TracedModule>& modules) {
  std::vector<double> out = with_all_below(modules, std::vector<double>(modules.size(), 1));
  for (double& number : out) number -= 1;
  return over_root(std::move(out));
}

}  // namespace

ModuleNodes module_nodes(const std::vector<TracedModule>& modules,
                         const std::vector<std::size_t>& same, double memory_weight, bool timed,
                         FiguresOf figures) {
  ModuleNodes out;
  if (modules.empty()) return out;
  const std::vector<double> memory = of_subtrees(modules, figures, [](const TracedModule& module) {
    return module.parameters + module.activation;
  });
  const std::vector<double> time =
      timed ? of_subtrees(modules, figures, [](const TracedModule& module) { return module.time; })
            : numbers_below(modules);
  // A node's number is the order of its first module.
  for (std::size_t m = 0; m < modules.size(); ++m) {
    if (same[m] == m) {
      out.node_of.push_back(out.tree.parent.size());
      out.tree.parent.push_back(kNoParent);
      out.tree.own.push_back(0);
    } else {
      out.node_of.push_back(out.node_of[same[m]]);
    }
    const std::size_t node = out.node_of[m];
    out.tree.own[node] += memory_weight * memory[m] + (1 - memory_weight) * time[m];
    const std::size_t parent = modules[m].parent;
    if (node == 0 || out.node_of[parent] == node) continue;
    // The parent of a node's first module began a node of a lower number, or stands in one.
    out.tree.parent[node] = std::min(out.tree.parent[node], out.node_of[parent]);
  }
  out.tree.cost = out.tree.own;
  for (std::size_t n = out.tree.parent.size(); n-- > 1;)
    out.tree.cost[out.tree.parent[n]] += out.tree.cost[n];
  const double root = out.tree.cost.front();
  if (root > 0) {
    for (double& cost : out.tree.cost) cost /= root;
    for (double& cost : out.tree.own) cost /= root;
  }
  return out;
}

}  // namespace trainyard
