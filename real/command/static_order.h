// SageMaker's static mode (arXiv:2111.05972, section 4.3): a schedule whose order depends on how
// long things take is tried in several orders before training begins, and the fastest is kept.
#pragma once

#include <functional>
#include <string>

#include "engine/base/units.h"
#include "engine/exec/times/action_times.h"
#include "real/command/training_plan.h"

namespace trainyard {

/// How often an order is tried: as many steps as SageMaker records.
inline constexpr int kOrders = 5;

/// One order's steps on all ranks; every rank has the same.
struct OrderTrial {
  Seconds step = 0;  // mean of the timed steps, of the slowest rank
  ActionTimes times;
};
/// Runs the plan for some steps, whose weights are dropped. `number` counts trials from 0.
using TryOrder = std::function<OrderTrial(const TrainingPlan& plan, int number)>;

/// Whether the study leaves its order to trials: mode static or fast, and none given.
bool tries_orders(const Study& study);

/// The plan with the fastest of up to kOrders orders: first the one for the profile's durations,
/// then one for the mean of what has been measured so far, then ones for durations drawn from that;
/// an order that was tried before is drawn again, a few times. The same on every rank if `run`
/// answers alike.
TrainingPlan fastest_order(const TrainingPlan& first, const TryOrder& run);

/// The order of the run in `folder`, where this study may go on with it: the same schedule of as
/// many ranks and microbatches. "": it has none, or another one.
std::string order_of_run(const std::string& folder, const Study& study);

/// A rank's times as text and back, to the last bit.
std::string to_text(const OrderTrial& trial);
OrderTrial order_trial_from(const std::string& text);

}  // namespace trainyard
