// Which modules of a graph tensor parallelism may split (parallel.tensor_modules).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"

namespace trainyard {

/// Whether a pattern matches the module, or one that it lies in; true without patterns.
bool is_chosen(std::string_view module, const std::vector<std::string>& patterns);

/// The graph whose other modules' weights have no hint how to split them: they stay whole.
/// Infeasible, at parallel.tensor_modules, where a chosen module and another one share a weight, or
/// no chosen one has a weight that is split.
std::variant<Graph, Infeasible> with_chosen_split(Graph graph,
                                                  const std::vector<std::string>& patterns);

}  // namespace trainyard
