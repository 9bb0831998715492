#include "tests/support/simulated.h"

#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/exec/analytic_executor.h"
#include "tests/support/studies.h"

namespace trainyard {

Simulated simulate_text(const std::string& yaml, bool fold, const std::vector<std::string>& sets) {
  Simulated out;
  out.prepared = prepare_text(yaml, sets);
  RunOptions options;
  options.record_rows = true;
  options.fold = fold;
  auto answer = simulate(out.prepared, options, {.verify = true});
  if (const auto* infeasible = std::get_if<Infeasible>(&answer))
    throw std::runtime_error(infeasible->reason);
  out.result = std::move(std::get<Simulation>(answer));
  out.timeline =
      make_timeline(out.result.program, out.result.trace,
                    fixed_memory(out.prepared.software, out.prepared.study.training.precision));
  return out;
}

ActionTimes simulated_actions(const Prepared& prepared) {
  const Program program = compiled_program(prepared);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  RunOptions options;
  options.record_rows = true;
  const std::vector<Job> jobs = {Job{&program, 0}};
  ActionTimes times(prepared.study.parallel.pipeline);
  for (const RankTrace& rank : AnalyticExecutor().run(jobs, costs, options).ranks)
    times.add(program, rank.rows);
  return times;
}

}  // namespace trainyard
