// Planner: tensor parallelism from a table of module paths (Merak's feature dicts; Lai et al. 2023,
// arXiv:2206.04959, section 4.1), as a sharding.
//
// An entry says which dim of the weight of a product or a table is split, and which collective
// stands behind: with that the layers are Megatron's, whatever the model's own hints say.
//
//   product  dim 0  outputs, which stay split (none) or are gathered (all_gather)
//            dim 1  inputs, whose summands are added up (all_reduce)
//   table    dim 0  rows, whose summands are added up (all_reduce)
//            dim 1  features, which stay split (none) or are gathered (all_gather)
//   T5's relative bias: dim 1, heads, which stay split (none)
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/passes/plan_megatron.h"

namespace trainyard {

/// For GPT, BERT, T5, ViT, Swin, Llama and CLIP, by the paths of this repository's models.
std::span<const SplitRule> default_split_table();

/// The entry that says how `module` is split: of `table` the one of most literal characters that
/// matches its path, else a default; nullptr: none, and it stays whole.
const SplitRule* split_rule(const std::string& module, const std::vector<SplitRule>& table);

struct AutoPlan : MegatronPlan {
  std::vector<SplitRule> table;  // before the default one
  friend bool operator==(const AutoPlan&, const AutoPlan&) = default;
};

/// Infeasible, at the entry's key, where the table splits what it cannot; at parallel.tensor where
/// a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_auto(Graph graph, const AutoPlan& plan);

}  // namespace trainyard
