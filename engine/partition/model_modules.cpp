#include "engine/partition/model_modules.h"

#include <algorithm>
#include <unordered_map>

#include "engine/base/match_pattern.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

class PathTree {
 public:
  explicit PathTree(const Graph& graph) : graph_(graph) { add("", kNoParent); }

  ModelModules run() {
    out_.of_op.assign(graph_.ops.size(), 0);
    std::vector<std::size_t> of_path(graph_.modules.size(), kNoParent);
    for (const OpId i : graph_.ops.keys()) {
      const Op& op = graph_.ops[i];
      std::size_t& known = of_path[op.module.number()];
      if (known == kNoParent) known = module_at(graph_.modules[op.module]);
      out_.of_op[i] = known;
      for (const TensorId input : op.inputs) {
        if (graph_.tensors[input].role == TensorRole::kParameter) share(input, known);
      }
    }
    for (std::size_t m = 0; m < out_.same.size(); ++m) out_.same[m] = first_of(m);
    return std::move(out_);
  }

 private:
  std::size_t add(const std::string& path, std::size_t parent) {
    const std::size_t module = out_.path.size();
    out_.path.push_back(path);
    out_.parent.push_back(parent);
    out_.same.push_back(module);
    known_.emplace(path, module);
    return module;
  }

  std::size_t module_at(const std::string& path) {
    if (path == "loss") return 0;
    if (const auto known = known_.find(path); known != known_.end()) return known->second;
    const std::size_t dot = path.rfind('.');
    return add(path, module_at(dot == std::string::npos ? "" : path.substr(0, dot)));
  }

  std::size_t first_of(std::size_t module) {
    std::vector<std::size_t>& same = out_.same;
    while (same[module] != module) module = same[module] = same[same[module]];
    return module;
  }

  void share(TensorId parameter, std::size_t module) {
    const auto [reader, is_first] = reader_.try_emplace(parameter, module);
    if (is_first) return;
    const std::size_t a = first_of(reader->second), b = first_of(module);
    out_.same[std::max(a, b)] = std::min(a, b);
  }

  const Graph& graph_;
  ModelModules out_;
  std::unordered_map<std::string, std::size_t> known_;
  std::unordered_map<TensorId, std::size_t> reader_;  // of a parameter, the first
};

/// Modules that share a parameter as nodes of a tree, costs left out.
ModuleNodes nodes_of(const ModelModules& modules) {
  std::vector<TracedModule> traced(modules.path.size());
  for (std::size_t m = 0; m < traced.size(); ++m) traced[m].parent = modules.parent[m];
  return module_nodes(traced, modules.same, 1, false, FiguresOf::kModule);
}

std::string name_of(const std::string& path) {
  return path.empty() ? "the model" : in_quotes(path);
}

}  // namespace

ModelModules model_modules(const Graph& graph) { return PathTree(graph).run(); }

std::variant<std::vector<std::int32_t>, Infeasible> assigned_devices(const ModelModules& modules,
                                                                     const ModuleAssignment& assign,
                                                                     std::int32_t fallback) {
  const std::size_t count = modules.path.size();
  const auto wrong = [](const std::string& reason) {
    return Infeasible{reason, "partition.assign"};
  };
  std::vector<const ModuleAssignment::value_type*> by(count, nullptr);
  const auto literal = [](const std::string& pattern) {
    return std::ssize(pattern) - std::count(pattern.begin(), pattern.end(), '*');
  };
  for (const auto& entry : assign) {
    bool matched = false;
    for (std::size_t m = 0; m < count; ++m) {
      if (!matches_pattern(entry.first, modules.path[m])) continue;
      matched = true;
      if (by[m] == nullptr || literal(by[m]->first) < literal(entry.first)) {
        by[m] = &entry;
      } else if (literal(by[m]->first) == literal(entry.first) && by[m]->second != entry.second) {
        return wrong(name_of(modules.path[m]) + " is on another device by " +
                     in_quotes(by[m]->first) + " than by " + in_quotes(entry.first) +
                     ", which is as specific");
      }
    }
    if (!matched) return wrong("no module of the model matches " + in_quotes(entry.first));
  }
  const ModuleNodes nodes = nodes_of(modules);
  std::vector<std::int32_t> of_node(nodes.tree.parent.size(), -1);
  for (std::size_t m = 0; m < count; ++m) {
    if (by[m] == nullptr) continue;
    std::int32_t& device = of_node[nodes.node_of[m]];
    if (device >= 0 && device != by[m]->second) {
      return wrong(name_of(modules.path[m]) + " shares a parameter with a module on device " +
                   std::to_string(device) + ", and is given device " +
                   std::to_string(by[m]->second));
    }
    device = by[m]->second;
  }
  if (of_node[0] < 0) of_node[0] = fallback;
  for (std::size_t n = 1; n < of_node.size(); ++n) {
    if (of_node[n] < 0) of_node[n] = of_node[nodes.tree.parent[n]];
  }
  std::vector<std::int32_t> out;
  for (std::size_t m = 0; m < count; ++m) out.push_back(of_node[nodes.node_of[m]]);
  return out;
}

ModuleAssignment assignment_of(const ModelModules& modules,
                               const std::vector<std::int32_t>& device) {
  const ModuleNodes nodes = nodes_of(modules);
  std::vector<std::int32_t> of_node(nodes.tree.parent.size(), -1);
  ModuleAssignment out;
  for (std::size_t m = 0; m < modules.path.size(); ++m) of_node[nodes.node_of[m]] = device[m];
  for (std::size_t m = 1; m < modules.path.size(); ++m) {
    const std::size_t node = nodes.node_of[m];
    if (modules.same[m] != m || node == 0) continue;  // said of its node's first module
    if (of_node[nodes.tree.parent[node]] != device[m]) out.emplace_back(modules.path[m], device[m]);
  }
  return out;
}

}  // namespace trainyard
