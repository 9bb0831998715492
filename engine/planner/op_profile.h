// What planners of stages know of a model: what each op costs, and what crosses between two of
// them.
#pragma once

#include <vector>

#include "engine/base/indexed.h"
#include "engine/base/units.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/passes/training_graph.h"
#include "engine/planner/op_times.h"

namespace trainyard {

struct OpProfile {
  Seconds forward = 0;      // of one microbatch
  Seconds backward = 0;     // the same, with what is recomputed for it
  double parameters = 0;    // elements on this rank, at the first op that reads them
  Bytes crossing = 0;       // forward, of values made before this op that it or a later one reads
  Bytes back_crossing = 0;  // their gradients
  Flop flop = 0;            // of its forward, in one microbatch
};

/// A kernel of `training` that takes time and is not in `times`; nullopt: there is none.
std::optional<std::string> find_untimed(const TrainingGraph& training, const OpTimes& times);

/// The forward ops of `training`, in their order. Times are those of kernels (kernel_time()), or
/// `measured` ones, which has all of them;
/// collectives, the launches of the host and the optimizer's update take none here. Data inputs are
/// loaded where they are read, and cross nowhere. O(instructions).
Indexed<OpId, OpProfile> profile_ops(const TrainingGraph& training, const HardwareProfile& hardware,
                                     const SoftwareProfile& software,
                                     const OpTimes* measured = nullptr);

}  // namespace trainyard
