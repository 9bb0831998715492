// How long the actions of every stage took in a step that has run, simulated or real: what
// schedules are searched for.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/base/units.h"
#include "engine/exec/trace.h"
#include "engine/program/program.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

struct ActionTimes {
  using OfPhase = std::map<Phase, std::vector<Seconds>>;
  Indexed<std::int32_t, OfPhase> of_stage;  // [stage]: each call's, from its first kernel to its
                                            // last, waits for receives left out
  std::vector<Seconds> transfers;           // each send's from device to device
  // A host-staged transfer is copied, sent and copied. No rank sees all of its way.
  std::vector<Seconds> sends_by_host;     // each send's and the copy's before it
  std::vector<Seconds> copies_from_host;  // each copy's behind a receive

  explicit ActionTimes(std::int64_t num_stages) : of_stage(num_stages) {}
  /// One rank's step.
  void add(const Program& program, std::span<const TraceRow> rows);
  void add(const ActionTimes& other);
};

/// One of the times, or of their mean; the vector is not empty.
using PickTime = std::function<Seconds(const std::vector<Seconds>&)>;
Seconds mean_time(const std::vector<Seconds>& times);

/// What a schedule is searched for: one time of each stage's actions as `pick` says, and of
/// transfers the shortest, which waited for nobody; host-staged, the shortest of either part of the
/// way. A backward that ran only in halves is their sum, halves of one that ran only as a whole
/// take half of it each, as `solve` reads its durations; what never ran takes 0.
ScheduleSettings durations_of(const ActionTimes& times, const PickTime& pick);

}  // namespace trainyard
