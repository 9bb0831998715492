// The executor without contention: every op takes the time that the cost model says, collectives and
// transfers their closed form. Oracle of the tests and inner loop of the planner.
//
// Since streams are first-in first-out and the Program fixes every order, no event queue is needed:
// each rank's ops are evaluated in issue order, each as early as program rule 2 allows, and ranks wait
// for one another only at communication that they share, which verify() has shown to be in one order.
#pragma once

#include "engine/exec/executor.h"

namespace trainyard {

class AnalyticExecutor : public Executor {
 public:
  /// Takes exactly one job: without contention, jobs do not meet.
  Trace run(std::span<const Job> jobs, const Costs& costs, const RunOptions& options) override;
};

}  // namespace trainyard
