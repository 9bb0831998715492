// Planner: Megatron's tensor and sequence parallelism, as a sharding.
//
//   column linear   splits its outputs; what it reads is entered (whole, its gradient summands)
//   row linear      splits its inputs; its summands are added up, or scattered over the sequence
//   vocabulary      table and LM head split by rows; the loss works on split logits
//   no hint         whole weights: a linear then reads all that it sums over
//   the rest        works on what it gets: whole tensors, heads and features, or runs of the
//                   sequence (norms, dropout, add)
//
// Every op splits the rows of its batch over the data-parallel axes; what has none is entered.
// Shoeybi et al. 2019 (arXiv:1909.08053) section 3; Korthikanti et al. 2022 (arXiv:2205.05198)
// section 4.
//
// Context parallelism splits the sequence of every activation; attention meets the others' keys:
//   ring        keys and values go round, a step at a time, while the block before is computed (Liu
//               et al. 2023, arXiv:2310.01889; from both ends as Megatron-LM balances it)
//   all-gather  they are gathered first (Llama Team 2024, arXiv:2407.21783, section 3.3.2)
//   ulysses     all-to-alls split heads instead (Jacobs et al. 2023, arXiv:2309.14509)
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct MegatronPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;
  AxisSet early = 0;  // of `data`: how many ranks they have is not late
  Axes tensor;
  bool sequence_parallel = false;
  Axes context;
  ContextConfig context_config;
  std::vector<std::string> modules;  // patterns of those that are split; empty: all
  bool uneven = false;               // Sharding::uneven
  friend bool operator==(const MegatronPlan&, const MegatronPlan&) = default;
};
MegatronPlan megatron_plan(const ParallelConfig& parallel);

/// Infeasible where a dimension does not divide (the study's checks catch the usual ones first, at
/// the line that says them).
std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan);

/// The same, where outputs for which `gathers` is true are gathered as soon as they are made.
std::variant<PlannedGraph, Infeasible> plan_megatron(Graph graph, const MegatronPlan& plan,
                                                     const std::function<bool(TensorId)>& gathers);

}  // namespace trainyard
