// Studies of every kind of timeline, simulated with their rows.
#pragma once

#include <string>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/times/action_times.h"
#include "report/timeline.h"

namespace trainyard {

struct Simulated {
  Prepared prepared;
  Simulation result;
  Timeline timeline;
};

/// Simulates the study `yaml` with all rows kept. Throws where it cannot run.
Simulated simulate_text(const std::string& yaml, bool fold,
                        const std::vector<std::string>& sets = {});

/// Forwards and backwards in pairs, on two pipeline ranks of two stages each.
extern const std::string kPairsStudy;

/// 1F1B with tensor parallelism on two replicas; interleaved with ZeRO-1 and recompute; a
/// straggler; one rank; pairs.
extern const std::vector<std::string> kReportStudies;

/// How long the actions of each stage take in a step with closed forms.
ActionTimes simulated_actions(const Prepared& prepared);

}  // namespace trainyard
