#include "app/predict_case.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "app/simulation.h"
#include "calibrate/validate/ingredients.h"
#include "engine/base/error.h"
#include "engine/memory/memory.h"
#include "engine/memory/reserved_memory.h"
#include "study/compile_study.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

Prediction skipped(Prediction prediction, SkipCause cause, const std::string& message,
                   const std::string& reason) {
  prediction.skipped = message;
  prediction.cause = cause;
  prediction.reason = reason;
  return prediction;
}

}  // namespace

Prepared prepare_case(const PublishedCase& one, const PredictOptions& options,
                      const StudyResolvers& resolvers) {
  YamlNode node = one.node;
  if (!options.fidelity.empty())
    node.set("fidelity=" + options.fidelity, "--fidelity " + options.fidelity);
  Study study = read_study_node(std::move(node), options.sets, resolvers);
  // Closed forms answer hundreds of cases in seconds, and published runs are alone on their
  // machines.
  if (!is_said(study, "fidelity")) study.fidelity = "analytic";
  return prepare_study(std::move(study), resolvers);
}

namespace {

Prediction facts_of(const Study& study, const Graph& model) {
  Prediction out;
  out.framework = study.framework.name;
  out.framework_version = study.framework.version;
  out.device = study.cluster.device;
  out.num_gpus = study.parallel.num_ranks();
  out.features = features_of(study, model);
  out.warnings = study.warnings;
  return out;
}

}  // namespace

Prediction predict_prepared(const Prepared& prepared, bool memory) {
  PassLog log;
  const Study& study = prepared.study;
  const auto compiled = compile(prepared.model, study, prepared.software, log);
  if (const auto* reason = std::get_if<Infeasible>(&compiled)) {
    return skipped(facts_of(study, prepared.model), SkipCause::kPlan,
                   plan_error(study, *reason).what(), reason->reason);
  }
  return predict_program(prepared, std::get<Program>(compiled), memory);
}

Prediction predict_program(const Prepared& prepared, const Program& program, bool memory) {
  const Study& study = prepared.study;
  Prediction out = facts_of(study, prepared.model);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, study.cluster, sources);
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  const Trace trace = make_executor(study.fidelity)->run(jobs, costs, RunOptions{});
  if (!trace.steady) {
    out.warnings.push_back("step times had not settled to 1e-9 after " +
                           std::to_string(trace.step_ends.size()) + " steps");
  }
  out.iteration_time = trace.period;
  out.time = ingredients_of(program, costs, trace);
  const Bytes capacity = prepared.hardware.memory_capacity - prepared.hardware.memory_reserved;
  const FixedMemory fixed = fixed_memory(prepared.software, study.training.precision);
  std::vector<MemoryPeak> peaks = memory_peaks(program, fixed);
  if (memory && !study.cluster.of_cpus) add_held(program, fixed, capacity, peaks);
  for (const MemoryPeak& peak : peaks) {
    const auto keep_largest = [](double& largest, Bytes bytes) {
      largest = std::max(largest, static_cast<double>(bytes) / kGiB);
    };
    const Bytes shown = peak.total + cached_within(peak, capacity);
    keep_largest(out.peak_memory_gib, shown);
    keep_largest(out.reserved_gib, shown - fixed.buffers);
    keep_largest(out.allocated_gib, peak.total - fixed.buffers);
    out.fits = out.fits && peak.total <= capacity;
  }
  out.memory_error = prepared.memory_error.value;
  out.may_fit = may_fit(peaks, capacity, out.memory_error);
  return out;
}

Prediction predict_case(const PublishedCase& one, const PredictOptions& options,
                        const StudyResolvers& resolvers) {
  if (!one.problem.empty()) return skipped({}, SkipCause::kInput, one.problem, one.problem);
  try {
    return predict_prepared(prepare_case(one, options, resolvers),
                            one.facts.peak_memory_gib.has_value());
  } catch (const ConfigError& error) {
    return skipped({}, SkipCause::kInput, error.what(), error.problem());
  } catch (const PlanError& error) {
    return skipped({}, SkipCause::kPlan, error.what(), error.what());
  } catch (const BackendError& error) {
    return skipped({}, SkipCause::kFailure, one.facts.place + ": " + error.what(), error.what());
  }
}

}  // namespace trainyard
