// One training step of a graph that no study describes, by compile() and the real executor, and the
// same by LibTorch's autograd.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/passes/pass_log.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"

namespace trainyard {

struct GraphRun {
  double loss = 0;     // of the step
  double norm_sq = 0;  // of all gradients; of a Program where the plan clips
  std::map<std::string, std::vector<double>> gradients;  // by parameter
  /// By result and microbatch: "m3.mul 1". Of a Program those that a kernel made, with the names
  /// that moves give them.
  std::map<std::string, std::vector<double>> results;
  /// Ops that allocated more beside their results than they declare (real/kernels/workspace.h).
  std::vector<std::string> greedy;
  /// Ranks that received other bytes from the others than the Program says.
  std::vector<std::string> miscounted;
  std::int64_t peak_live = 0;  // bytes of the values of a rank that has most, of all its ops
};

/// All elements of a weight or an input, by its name, its whole shape and, of an input, the number
/// of its first sample.
using GraphNumbers =
    std::function<std::vector<double>(const std::string& name, const Shape& shape, std::int64_t)>;

/// On one rank, two microbatches in fp64.
Plan plan_of_graph();

/// Weights and inputs are numbers between -1 and 1 without a pattern; every microbatch has others.
/// Results and gradients are the whole tensors, put together from what ranks hold; throws
/// std::runtime_error where ranks hold alike what is not alike.
GraphRun run_graph(const Graph& graph, const Plan& plan, const CompileOptions& options = {});
GraphRun run_program(const Program& program, const Graph& graph, const Plan& plan,
                     bool over_gloo = false);
/// The same of weights and inputs that `numbers` makes.
GraphRun run_program(const Program& program, const Graph& graph, const Plan& plan,
                     const GraphNumbers& numbers, bool over_gloo = false);
/// What compile() makes of it; throws std::runtime_error with the reason where it is impossible.
Program compile_graph(const Graph& graph, const Plan& plan, const CompileOptions& options = {});
GraphRun differentiate_by_torch(const Graph& graph);

}  // namespace trainyard
