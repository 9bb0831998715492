// Planner: tensor parallelism on a mesh of two axes (ATP; Cheng et al. 2023, arXiv:2301.08658,
// section 3.2), as a sharding.
//
//   column-first linear  its outputs over the first axis, its inputs over the second (query, key
//                        and value; the MLP's first)
//   row-first linear     the other way round (attention's output; the MLP's second)
//   between layers       features over the second axis, alike along the first
//   attention's core     heads over both: what each rank has of them is a slice, and its result is
//                        gathered along the second axis, so that no product is repeated
//   norms                moments of rows are added up along the second axis
//   vocabulary           table and LM head by rows over both; the loss works on split logits
//   sequence parallelism between layers the sequence is split over the first axis, too: what
//                        column-first linears read is gathered along it, and the summands of
//                        row-first ones are scattered (Korthikanti et al. 2022, arXiv:2205.05198)
//
// Of the four products the summands of query, key and value and of the MLP's first linear are added
// up along the second axis, the others' along the first. On N x 1 ranks it is Megatron's.
#pragma once

#include <optional>
#include <variant>

#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct AtpPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;        // late
  Axes first;       // none: it has one rank
  Axes second;      // not none
  bool sequence_parallel = false;
  friend bool operator==(const AtpPlan&, const AtpPlan&) = default;
};

/// nullopt: its ranks lie on one axis, where it is Megatron's. The mesh has been chosen.
std::optional<AtpPlan> atp_plan(const ParallelConfig& parallel);

/// Infeasible, at parallel.tensor, where a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_atp(Graph graph, const AtpPlan& plan);

}  // namespace trainyard
