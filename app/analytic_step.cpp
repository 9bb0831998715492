#include "app/analytic_step.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "app/simulation.h"
#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "study/compile_study.h"

namespace trainyard {

std::optional<Program> program_of(const Prepared& prepared, const Study& study, PassLog& log) {
  auto compiled = compile(prepared.model, study, prepared.software, log);
  if (std::holds_alternative<Infeasible>(compiled)) return std::nullopt;
  return std::get<Program>(std::move(compiled));
}

const Program* program_of(const Prepared& prepared, const Study& study, PassLog& log,
                          Compiler& compiler) {
  const auto compiled = compile(compiler, prepared.model, study, prepared.software, log);
  const auto* program = std::get_if<const Program*>(&compiled);
  return program == nullptr ? nullptr : *program;
}

Trace step_of(const Prepared& prepared, const Study& study, const Program& program,
              bool with_rows) {
  AnalyticExecutor analytic;
  return step_of(prepared, study, program, with_rows, analytic);
}

Trace step_of(const Prepared& prepared, const Study& study, const Program& program, bool with_rows,
              Executor& executor) {
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, study.cluster, sources);
  RunOptions options;
  options.record_rows = with_rows;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  return executor.run(jobs, costs, options);
}

Seconds simulated_step(const Prepared& prepared, const Study& study, const Program& program) {
  return step_of(prepared, study, program, false, *make_executor("fluid")).period;
}

std::optional<Seconds> step_if_below(Seconds limit, const Prepared& prepared, const Study& study,
                                     const Program& program) {
  constexpr double kRounding = 1e-3;  // of closed forms
  if (step_of(prepared, study, program, false).period * (1 - kRounding) >= limit)
    return std::nullopt;
  const Seconds step = simulated_step(prepared, study, program);
  return step < limit ? std::optional(step) : std::nullopt;
}

const Program* program_with(const RecomputeConfig& recompute, const Prepared& prepared,
                            const Study& study, Compiler& compiler) {
  Study other = study;
  other.recompute = recompute;
  PassLog log;
  return program_of(prepared, other, log, compiler);
}

Bytes largest_peak(const std::vector<MemoryPeak>& peaks) {
  Bytes most = 0;
  for (const MemoryPeak& peak : peaks) most = std::max(most, peak.total);
  return most;
}

std::vector<MemoryPeak> peaks_of(const Prepared& prepared, const Study& study,
                                 const Program& program) {
  return memory_peaks(program, fixed_memory(prepared.software, study.training.precision));
}

Bytes standing_memory(const Prepared& prepared, const Study& study, const Program& program) {
  Bytes most = 0;
  const auto see = [&](std::size_t, const MemoryStep& step) {
    if (step.segment == kNoIndex)
      most = std::max(most, sum(step.after) - step.after[MemoryClass::kActivation]);
  };
  follow_memory(program, fixed_memory(prepared.software, study.training.precision), see);
  return most;
}

Bytes capacity_of(const Prepared& prepared) {
  return prepared.hardware.memory_capacity - prepared.hardware.memory_reserved;
}

}  // namespace trainyard
