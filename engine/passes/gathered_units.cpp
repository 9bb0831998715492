#include "engine/passes/gathered_units.h"

#include <algorithm>
#include <map>

#include "engine/passes/given_modules.h"

namespace trainyard {

namespace {

constexpr std::int32_t kUnseen = -3;

bool is_one_of(const std::string& module, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(pattern, module); });
}

/// "decoder.layers.0.mlp" of "decoder.layers.0.mlp.fc1": the module furthest down that a pattern
/// matches; empty: none does.
std::string unit_around(std::string path, const std::vector<std::string>& patterns) {
  while (!path.empty() && !is_one_of(path, patterns)) {
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
  return path;
}

}  // namespace

Indexed<ParameterId, std::int32_t> find_gathered_units(const TrainingGraph& training,
                                                       const std::vector<std::string>& patterns) {
  const Graph& graph = training.graph;
  Indexed<ParameterId, std::int32_t> unit(graph.parameters.size(), kUnseen);
  std::map<std::string, std::int32_t> numbers;
  const auto unit_of = [&](const Instruction& op) {
    if (patterns.empty()) return op.layer < 0 ? kRootUnit : op.layer;
    const std::string module = unit_around(graph.modules[op.module], patterns);
    if (module.empty()) return kRootUnit;
    return numbers.try_emplace(module, static_cast<std::int32_t>(numbers.size())).first->second;
  };
  for (const Instruction& op : training.forward) {
    for (const TensorId read : op.reads) {
      if (graph.tensors[read].role != TensorRole::kParameter) continue;
      std::int32_t& known = unit[graph.tensors[read].parameter];
      const std::int32_t here = unit_of(op);
      known = known == kUnseen || known == here ? here : kRootUnit;
    }
  }
  for (std::int32_t& one : unit) one = std::max(one, kRootUnit);
  return unit;
}

std::string unmatched_pattern(const TrainingGraph& training,
                              const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const bool found =
        std::any_of(training.forward.begin(), training.forward.end(), [&](const Instruction& op) {
          return !unit_around(training.graph.modules[op.module], {pattern}).empty();
        });
    if (!found) return pattern;
  }
  return {};
}

}  // namespace trainyard
