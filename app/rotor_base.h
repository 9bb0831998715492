// What rotor's plans of a study have in common, whatever their budget: its stages as chains, and
// the tables of these.
#pragma once

#include <variant>
#include <vector>

#include "app/prepare.h"
#include "engine/base/error.h"
#include "engine/base/units.h"
#include "engine/memory/memory.h"
#include "engine/passes/chain_groups.h"
#include "engine/passes/pass_log.h"
#include "engine/passes/training_graph.h"
#include "engine/recompute/rotor_in_flight.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// What groups keep that are kept.
enum class Keeps : std::uint8_t { kAll, kAllButCores };

struct RotorBase {
  PassLog log;
  TrainingGraph training;  // without recomputation
  ChainGroups groups;
  std::vector<SizedChain> chains;  // [stage]
  // Without recomputation:
  std::vector<MemoryPeak> whole;        // [pipeline rank]
  Numbered<ActionDurations> durations;  // [stage] of a microbatch, with closed forms
  Seconds step = 0;                     // with closed forms
  RotorTables tables;
};

/// `study` without recomputation, or with that of attention's cores alone, compiled, and its stages
/// timed in a simulated step. Infeasible: why there is no Program.
std::variant<RotorBase, Infeasible> make_rotor_base(const Prepared& prepared, const Study& study,
                                                    Keeps keeps);

}  // namespace trainyard
