// What was tried for how ops are split, and what the plan says of each of them: for `compile`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/units.h"
#include "engine/passes/plan_map.h"
#include "engine/planner/map_problem.h"

namespace trainyard {

/// A sharding that was compiled and simulated.
struct SplitTrial {
  std::string name;
  std::vector<int> mesh;  // of the tensor group
  std::vector<GivenSharding> ops;
  PlannedGraph planned;
  Seconds once = 0;    // where nothing is recomputed by rotor
  Seconds closed = 0;  // then, with closed forms
  Bytes whole = 0;     // then, of the rank that needs most
  Bytes always = 0;    // of it, whatever is recomputed
  Seconds step = 0;    // with what is
  Bytes peak = 0;
  std::optional<RecomputeConfig> recompute;  // what rotor has chosen
  std::vector<std::string> lines;            // what it computes again
};

struct ChosenSplits {
  std::vector<SplitTrial> trials;
  std::size_t best = 0;
  const MapProblem* problem = nullptr;
  std::optional<Choice> choice;  // of the problem, that the best is; nullopt: it has none such
  std::vector<OpId> given;       // whose strategies the study's sharding says
  std::vector<std::string> lines;
};

/// With what the line of the sharding that was chosen begins; those of others do not.
inline constexpr const char* kChosenMark = "  * ";

/// `plan`: on the best one's mesh. The trials, fastest first; then each op that layers repeat once:
/// its split, how its result is stored, what it takes, and the next best split with all others as
/// they are.
std::vector<std::string> splits_text(const PlannedGraph& whole, const MapPlan& plan,
                                     const ChosenSplits& chosen);

}  // namespace trainyard
