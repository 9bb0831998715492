// Planner: Megatron's tensor and sequence parallelism, as a sharding.
//
//   column linear   splits its outputs; what it reads is entered (whole, its gradient summands)
//   row linear      splits its inputs; its summands are added up, or scattered over the sequence
//   vocabulary      table and LM head split by rows; the loss works on split logits
//   the rest        works on what it gets: whole tensors, heads and features, or runs of the
//                   sequence (norms, dropout, add)
//
// Every op splits the rows of its batch over the data-parallel axes; what has none is entered.
// Shoeybi et al. 2019 (arXiv:1909.08053) section 3; Korthikanti et al. 2022 (arXiv:2205.05198)
// section 4.
#pragma once

#include <variant>

#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct MegatronPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;        // late
  Axes tensor;
  bool sequence_parallel = false;
  friend bool operator==(const MegatronPlan&, const MegatronPlan&) = default;
};
MegatronPlan megatron_plan(const ParallelConfig& parallel);

/// Infeasible where a dimension does not divide (the study's checks catch the usual ones first, at
/// the line that says them).
std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan);

}  // namespace trainyard
