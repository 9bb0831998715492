// A graph's step by the real executor, held to LibTorch's autograd: values, loss, gradients.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/real/graph_run.h"

namespace trainyard {

/// The largest difference, over the largest element of b where that is above 1.
inline double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double apart = 0, size = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart = std::max(apart, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return apart / size;
}

inline void check_against_autograd(const Graph& graph, const Plan& plan, double within) {
  const GraphRun theirs = differentiate_by_torch(graph), ours = run_graph(graph, plan);
  CHECK(ours.greedy == std::vector<std::string>());
  CHECK(ours.loss == Approx(theirs.loss).epsilon(1e-12));
  CHECK(ours.gradients.size() == theirs.gradients.size());
  for (const auto& [name, gradient] : theirs.gradients) {
    CAPTURE(name);
    REQUIRE(ours.gradients.contains(name));
    CHECK(relative_distance(ours.gradients.at(name), gradient) < within);
  }
  int compared = 0;
  for (const auto& [name, value] : ours.results) {
    if (!theirs.results.contains(name)) continue;  // made by the step or a kernel, not by the graph
    CAPTURE(name);
    CHECK(relative_distance(value, theirs.results.at(name)) < within);
    ++compared;
  }
  CHECK(compared > 0);
}

}  // namespace trainyard
