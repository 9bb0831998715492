// Planner: SageMaker's tensor parallelism (Karakus et al. 2021, arXiv:2111.05972, section 5 and
// appendix F), as a sharding. The tensor group lies inside the data-parallel group: its ranks have
// samples of their own, and what is not distributed computes those alone.
//
//   a distributed module  gathers its group's samples, computes its part, and gives them back
//   linear                all-to-all of inputs, product of a slice of them, reduce-scatter of
//                         samples (figure 6)
//   embedding             all-gather of ids, look-up of a slice of the features, all-to-all
//   transformer, memory   features are split between ops, too: a linear sums up over its slice of
//                         them, and a reduce-scatter gives each rank its slice of the result;
//                         norms add up moments; attention is split by heads
//   transformer, speed    within, as Megatron splits it
//
// With a prescaled batch a group's ranks have the same samples: what is gathered or scattered by
// samples is there, and what an embedding found is gathered by features.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/passes/method_mesh.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct SmpPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;        // late
  Axes tensor;      // not none
  SmpConfig config;
  std::vector<std::string> modules;  // patterns of those that may be distributed; empty: all
  /// What several ops of a transformer read from outside is gathered for all of them by a view,
  /// which the graph gets; false: it has the ops that it had, and each moves what it reads.
  bool enters_once = true;
  friend bool operator==(const SmpPlan&, const SmpPlan&) = default;
};

/// For memory features are split between all ops.
MethodProblem check_smp(const Plan& plan);

/// `graph`: of the samples of a whole tensor group. Infeasible, at parallel.tensor, where a
/// dimension does not divide; at parallel.tensor_modules where nothing is distributed.
std::variant<PlannedGraph, Infeasible> plan_smp(Graph graph, const SmpPlan& plan);

}  // namespace trainyard
