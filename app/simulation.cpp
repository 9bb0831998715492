#include "app/simulation.h"

#include <array>
#include <optional>
#include <utility>

#include "engine/base/format.h"
#include "engine/exec/analytic_executor.h"
#include "engine/exec/time_interval.h"
#include "engine/memory/memory.h"
#include "engine/memory/reserved_memory.h"
#include "report/layer_links.h"
#include "sim/network_executor.h"

namespace trainyard {

namespace {

std::optional<TimeInterval> time_interval(const Prepared& prepared, const Program& program,
                                          const Costs& costs, const Trace& trace,
                                          RunOptions options) {
  const CostUncertainty uncertainty(program, prepared.hardware, prepared.software,
                                    prepared.study.cluster);
  if (!uncertainty.any()) return std::nullopt;
  const std::unique_ptr<Executor> executor = make_executor(prepared.study.fidelity);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  options.record_rows = false;
  return find_time_interval(
      program, uncertainty, costs, trace.period, draws_for(trace.num_events),
      [&](const Costs& drawn) { return executor->run(jobs, drawn, options).period; });
}

/// A profile that was measured badly says so in its intervals; nobody should have to look for it.
void warn_of_wide_interval(Summary& summary) {
  constexpr double kWide = 4;
  if (!summary.interval || !(summary.interval->high > kWide * summary.interval->low)) return;
  summary.warnings.push_back(
      format("the profile leaves the step time open by a factor of %.0f, from the lower to the "
             "upper end of its 90 %% "
             "interval: measured on a busy machine, or too shortly; calibrate again",
             summary.interval->high / summary.interval->low));
}

}  // namespace

std::unique_ptr<Executor> make_executor(const std::string& fidelity) {
  if (fidelity == "fluid") return std::make_unique<NetworkExecutor>(Fidelity::kFluid);
  if (fidelity == "step") return std::make_unique<NetworkExecutor>(Fidelity::kStep);
  return std::make_unique<AnalyticExecutor>();
}

TimedStep StepTimer::time(const Prepared& prepared, const Program& program,
                          const SharedSegments& shared, const RunOptions& options) {
  TimedStep out;
  SourceLog sources;
  const Costs& costs = costs_.make(program, shared, prepared.hardware, prepared.software,
                                   prepared.study.cluster, sources);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  out.trace = make_executor(prepared.study.fidelity)->run(jobs, costs, options);
  sources.use(prepared.hardware.memory_provenance, prepared.hardware.name, "memory",
              "capacity and what is reserved of it");
  const auto used_for_memory = [&](const char* number, double value, double without,
                                   const char* what) {
    const auto found = prepared.software.provenance.find(number);
    if (found != prepared.software.provenance.end() && value != without)
      sources.use(found->second, prepared.software.name, number, what);
  };
  used_for_memory("context_gib", prepared.software.context_gib, 0,
                  "bytes beside the Program's values");
  used_for_memory("cached_gib", prepared.software.cached_gib, 0,
                  "bytes that the allocator keeps while there is room");
  used_for_memory("activation_factor", prepared.software.activation_factor, 1,
                  "bytes of activations");
  const auto memory =
      memory_peaks(program, fixed_memory(prepared.software, prepared.study.training.precision));
  out.summary =
      summarise({prepared.study, prepared.model, program, out.trace, memory, prepared.hardware,
                 prepared.memory_error, sources, digester_.digest(program, shared)});
  return out;
}

std::variant<Simulation, Infeasible> simulate(const Prepared& prepared, const RunOptions& options,
                                              const CompileOptions& compile_options) {
  PassLog log;
  auto compiled = compile(prepared.model, prepared.study, prepared.software, log, compile_options);
  if (auto* reason = std::get_if<Infeasible>(&compiled)) return *reason;
  auto& program = std::get<Program>(compiled);
  TimedStep timed = StepTimer().time(prepared, program, SharedSegments{}, options);
  if (!prepared.study.cluster.of_cpus) {
    add_held(program, fixed_memory(prepared.software, prepared.study.training.precision),
             timed.summary.memory_capacity, timed.summary.peak_memory);
  }
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  timed.summary.interval = time_interval(prepared, program, costs, timed.trace, options);
  warn_of_wide_interval(timed.summary);
  timed.summary.layer = layer_sharding(program, prepared.model);
  add_layer_links(program, prepared.study.cluster, *timed.summary.layer);
  timed.summary.partition = partition_view(program, costs, log, prepared.study);
  return Simulation{std::move(program), std::move(timed.trace), std::move(timed.summary)};
}

}  // namespace trainyard
