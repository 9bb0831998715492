#include "engine/exec/analytic_executor.h"

#include "engine/base/error.h"
#include "engine/exec/loop/program_run.h"

namespace trainyard {

Trace AnalyticExecutor::run(std::span<const Job> jobs, const Costs& costs,
                            const RunOptions& options) {
  check(jobs.size() == 1 && jobs[0].program != nullptr, "the analytic executor runs one job");
  const RunPlan plan = make_run_plan(*jobs[0].program, costs, options, nullptr);
  return run_plan(plan, options, jobs[0].start, nullptr).trace;
}

}  // namespace trainyard
