#include "sim/network_executor.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/exec/channels/contention.h"
#include "engine/exec/channels/link_loads.h"
#include "sim/message_network.h"

namespace trainyard {

Trace NetworkExecutor::run(std::span<const Job> jobs, const Costs& costs, const RunOptions& asked) {
  check(jobs.size() == 1 && jobs[0].program != nullptr, "the SimGrid executors run one job");
  const bool step = fidelity_ == Fidelity::kStep;
  RunOptions options = asked;
  options.fold = asked.fold && !step;
  const Network network(costs.cluster);
  RunPlan plan = make_run_plan(*jobs[0].program, costs, options, &network);
  const Contention contention = find_contention(plan, network);
  plan.contends = contention.channel;
  if (!options.reuse) plan.contends.assign(plan.contends.size(), true);
  const bool any =
      std::find(plan.contends.begin(), plan.contends.end(), true) != plan.contends.end();
  if (any) make_lists(plan, costs, options);
  RunResult result;
  Indexed<LinkClassId, Seconds> shared;
  if (any) {
    MessageNetwork messages(plan, network, contention, step, !options.reuse);
    messages.run([&] { result = run_plan(plan, options, jobs[0].start, &messages); });
    shared = messages.shared();
  } else {
    result = run_plan(plan, options, jobs[0].start, nullptr);
  }
  result.trace.links = link_loads(plan, network, result.sent, shared, result.trace.period);
  return std::move(result.trace);
}

}  // namespace trainyard
