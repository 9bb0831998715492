#include "engine/passes/chosen_modules.h"

#include <algorithm>
#include <utility>

#include "engine/passes/given_modules.h"

namespace trainyard {

namespace {

constexpr const char* kKey = "parallel.tensor_modules";

}  // namespace

bool is_chosen(std::string_view module, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return true;
  for (;;) {
    if (std::any_of(patterns.begin(), patterns.end(),
                    [&](const std::string& one) { return matches_pattern(one, module); }))
      return true;
    const std::size_t dot = module.rfind('.');
    if (dot == std::string_view::npos) return false;
    module = module.substr(0, dot);
  }
}

std::variant<Graph, Infeasible> with_chosen_split(Graph graph,
                                                  const std::vector<std::string>& patterns) {
  if (patterns.empty()) return graph;
  Indexed<PathId, bool> chosen;
  for (const std::string& module : graph.modules) chosen.push_back(is_chosen(module, patterns));
  Indexed<ParameterId, const Op*> reader;  // the first one
  reader.assign(graph.parameters.size(), nullptr);
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) {
      const ParameterId id = graph.tensors[input].parameter;
      if (id == kNoIndex || graph.parameters[id].split == SplitHint::kNone) continue;
      if (reader[id] == nullptr) reader[id] = &op;
      const Op* first = reader[id];
      if (chosen[first->module] == chosen[op.module]) continue;
      const auto& [one, other] = chosen[op.module] ? std::pair(op.module, first->module)
                                                   : std::pair(first->module, op.module);
      return Infeasible{graph.modules[one] + " is chosen and " + graph.modules[other] +
                            " is not, and they share " + graph.parameters[id].name +
                            "; choose both or neither",
                        kKey};
    }
  }
  bool any = false;
  for (const ParameterId id : graph.parameters.keys()) {
    if (reader[id] == nullptr) continue;
    if (chosen[reader[id]->module])
      any = true;
    else
      graph.parameters[id].split = SplitHint::kNone;
  }
  if (any) return graph;
  std::string split;
  for (const ParameterId id : graph.parameters.keys()) {
    if (reader[id] == nullptr || reader[id]->layer > 0) continue;
    const std::string& module = graph.modules[reader[id]->module];
    if (split.ends_with(module)) continue;
    split += (split.empty() ? "" : ", ") + module;
  }
  return Infeasible{"no module that is chosen has a weight that is split; " + split + " have",
                    kKey};
}

}  // namespace trainyard
