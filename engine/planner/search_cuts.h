// `partition: search`: the cuts with which a step takes least.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/planner/op_profile.h"
#include "engine/planner/search_recompute.h"

namespace trainyard {

struct EvaluatedCuts {
  Seconds period = 0;
  Bytes excess = 0;  // of the fullest rank, above what it has; 0: the plan fits
  std::optional<ShareChoice> share = {};  // of stage-aware recomputation, where that was left open
};

/// The plan's step with these cuts; nullopt: it has no Program.
using EvaluateCuts = std::function<std::optional<EvaluatedCuts>(const std::vector<StageCut>&)>;

struct CutSearch {
  int num_stages = 1;
  std::int64_t num_ranks = 1;      // pipeline ranks, among which stages are divided
  double num_microbatches = 1;     // of a step, each as large as the profile's; 0: not alike on
                                   // all ranks, and no bound is known
  bool one_stage_per_rank = true;  // and its backward whole: the pipeline fills stage by stage
  std::vector<std::vector<StageCut>> starts;  // to begin with
  int budget = 600;                           // evaluations, those of the starts among them
};

struct SearchedCuts {
  std::vector<StageCut> cuts;
  EvaluatedCuts step;
  int evaluations = 0;
  int ruled_out = 0;       // of which stages_bound() said enough
  bool all_tried = false;  // every way to cut between ops was evaluated, or ruled out
  Seconds bound = 0;       // no cuts lead to a shorter step: step_bound(); 0: none is known
  std::string reason;      // what study.resolved.yaml says
};

/// What no step with any cuts takes less than, by kernels alone. With W the time of all ops for a
/// microbatch, m microbatches and p ranks
///
///   W / (1 - (1 - 1/m)^p)   one stage per rank: rank s cannot begin before the first microbatch
///                           has passed all stages before it, nor end the step before the last one
///                           has come back through them, so m W_s + W_1 + ... + W_(s-1) <= T
///   max(W, m W / p)         else
///
/// and m times the longest op.
Seconds step_bound(const Indexed<OpId, OpProfile>& profile, const CutSearch& search);

/// The same of given stages, W_s of each for a microbatch, one per rank: the most of
/// m W_s + W_1 + ... + W_(s-1).
Seconds stages_bound(const std::vector<Seconds>& stages, double num_microbatches);

/// The cuts of the shortest step that fits its memory; where none fits, those that miss by least.
/// Cuts whose own stages_bound() is no better than the best step so far are not evaluated where
/// pipelines fill stage by stage. All ways to cut between ops where the budget has room for them;
/// else the best of the starts, from which single cuts, and all cuts from one on, are moved in turn
/// by ever smaller steps as long as that helps. Deterministic. Infeasible: no start has a Program.
std::variant<SearchedCuts, Infeasible> search_cuts(const Graph& graph,
                                                   const Indexed<OpId, OpProfile>& profile,
                                                   const CutSearch& search,
                                                   const EvaluateCuts& evaluate);

}  // namespace trainyard
