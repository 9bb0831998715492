#include "engine/passes/given_modules.h"

#include <algorithm>
#include <set>

namespace trainyard {

GivenModules::GivenModules(const Graph& graph) : graph_(graph), readers_(graph.tensors.size()) {
  for (const OpId id : graph.ops.keys()) {
    const Op& op = graph.ops[id];
    for (std::string path = graph.modules[op.module]; !path.empty();) {
      Module& module = modules_[path];
      module.path = path;
      module.ops.push_back(id);
      if (path.size() == graph.modules[op.module].size()) module.own.push_back(id);
      const std::size_t dot = path.rfind('.');
      path.resize(dot == std::string::npos ? 0 : dot);
    }
    for (const TensorId input : op.inputs) {
      auto& readers = readers_[input];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
  }
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.tensor != kNoIndex) parameters_.emplace(parameter.name, parameter.tensor);
  }
}

std::vector<const GivenModules::Module*> GivenModules::matched(std::string_view pattern) const {
  std::vector<const Module*> out;
  for (const auto& [path, module] : modules_) {
    if (matches_pattern(pattern, path)) out.push_back(&module);
  }
  return out;
}

bool GivenModules::holds(const Module& module, OpId op) {
  return std::binary_search(module.ops.begin(), module.ops.end(), op);
}

TensorId GivenModules::input(const Module& module, std::size_t number) const {
  std::vector<TensorId> seen;
  for (const OpId id : module.ops) {
    for (const TensorId tensor : graph_.ops[id].inputs) {
      const Tensor& t = graph_.tensors[tensor];
      const bool inside = t.producer != kNoIndex && holds(module, t.producer);
      if (inside || t.role == TensorRole::kParameter) continue;
      if (std::find(seen.begin(), seen.end(), tensor) != seen.end()) continue;
      if (seen.size() == number) return tensor;
      seen.push_back(tensor);
    }
  }
  return kNoIndex;
}

TensorId GivenModules::output(const Module& module) const {
  for (const OpId id : module.ops) {
    for (const TensorId tensor : graph_.ops[id].outputs) {
      const auto& readers = readers_[tensor];
      const bool leaves = std::any_of(readers.begin(), readers.end(),
                                      [&](OpId reader) { return !holds(module, reader); });
      if (leaves || tensor == graph_.loss) return tensor;
    }
  }
  return kNoIndex;
}

TensorId GivenModules::parameter(const Module& module, const std::string& name) const {
  const auto found = parameters_.find(module.path + "." + name);
  return found == parameters_.end() ? TensorId(kNoIndex) : found->second;
}

std::vector<std::string> GivenModules::names_of(const Module& module) const {
  std::set<std::string> parameters;
  for (const auto& [name, tensor] : parameters_) {
    const std::size_t dot = name.rfind('.');
    if (dot == module.path.size() && name.starts_with(module.path))
      parameters.insert(name.substr(dot + 1));
  }
  std::vector<std::string> names(parameters.begin(), parameters.end());
  if (input(module, 0) != kNoIndex) names.emplace_back("input");
  if (output(module) != kNoIndex) names.emplace_back("output");
  return names;
}

std::vector<std::string> GivenModules::some_paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, module] : modules_) {
    if (module.own.empty()) continue;
    if (graph_.ops[module.own.front()].layer <= 0) paths.push_back(path);
  }
  return paths;
}

}  // namespace trainyard
