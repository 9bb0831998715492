// The executor without contention: every op takes the time that the cost model says, collectives
// and transfers their closed form. Oracle of the tests and inner loop of the planner.
#pragma once

#include "engine/exec/executor.h"

namespace trainyard {

class AnalyticExecutor : public Executor {
 public:
  /// Takes exactly one job: without contention, jobs do not meet.
  Trace run(std::span<const Job> jobs, const Costs& costs, const RunOptions& options) override;
};

}  // namespace trainyard
