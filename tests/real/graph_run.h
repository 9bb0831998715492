// One training step of a graph that no study describes, by compile() and the real executor, and the
// same by LibTorch's autograd.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct GraphRun {
  double loss = 0;                                       // of the step
  std::map<std::string, std::vector<double>> gradients;  // by parameter
  /// By result and microbatch: "m3.mul 1". Of a Program those that a kernel made.
  std::map<std::string, std::vector<double>> results;
  /// Ops that allocated more beside their results than they declare (real/kernels/workspace.h).
  std::vector<std::string> greedy;
};

/// On one rank, two microbatches in fp64.
Plan plan_of_graph();

/// Weights and inputs are numbers between -1 and 1 without a pattern; every microbatch has others.
GraphRun run_graph(const Graph& graph, const Plan& plan);
GraphRun differentiate_by_torch(const Graph& graph);

}  // namespace trainyard
