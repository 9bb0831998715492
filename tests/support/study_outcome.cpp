#include "tests/support/study_outcome.h"

#include <algorithm>
#include <cmath>

#include "tests/support/studies.h"

namespace trainyard {

namespace {

bool is_positive(double number) { return std::isfinite(number) && number > 0; }

std::string find_implausible_time(const TimeClasses& time, Seconds period) {
  std::vector<Seconds> parts = {time.compute, time.optimizer, time.host, time.bubble};
  for (const auto& [kind, seconds] : time.exposed) parts.push_back(seconds);
  Seconds sum = 0;
  for (const Seconds part : parts) {
    if (!(part >= -1e-12 * period)) return "a time class is negative: " + std::to_string(part);
    sum += part;
  }
  if (!(std::abs(sum - period) <= 1e-9 * period)) {
    return "time classes add up to " + std::to_string(sum) + ", the step takes " +
           std::to_string(period);
  }
  return {};
}

}  // namespace

const char* to_string(Outcome::Kind kind) {
  constexpr const char* kNames[] = {"fits", "does not fit", "infeasible", "config error"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_run_by_the_thousand(const Study& study) {
  const std::int64_t actions = 2 * std::int64_t{study.parallel.pipeline} *
                               study.parallel.virtual_stages * study.num_microbatches();
  return study.model.layers + study.model.decoder_layers <= kMostLayers && actions <= kMostActions;
}

Outcome run_study(const std::string& yaml, const std::vector<std::string>& sets,
                  const RunOptions& options, const std::string& name,
                  const std::function<void(Study&)>& change) {
  Outcome outcome;
  try {
    std::vector<std::string> warnings;
    const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
    Study study = read_study_node(YamlNode::parse(yaml, name), sets, resolvers);
    if (change) change(study);
    outcome.study = study;
    if (!is_run_by_the_thousand(study)) {
      outcome.kind = Outcome::Kind::kInfeasible;
      outcome.reason = kTooLarge;
      return outcome;
    }
    const Prepared prepared = prepare_study(study, resolvers);
    auto answer = simulate(prepared, options, {.verify = true});
    if (const auto* reason = std::get_if<Infeasible>(&answer)) {
      outcome.kind = Outcome::Kind::kInfeasible;
      outcome.reason = reason->reason;
      return outcome;
    }
    outcome.simulation = std::move(std::get<Simulation>(answer));
    outcome.kind =
        outcome.simulation->summary.fits ? Outcome::Kind::kFits : Outcome::Kind::kDoesNotFit;
  } catch (const ConfigError& error) {
    outcome.kind = Outcome::Kind::kConfigError;
    outcome.reason = error.what();
  } catch (const PlanError& error) {
    outcome.kind = Outcome::Kind::kInfeasible;
    outcome.reason = error.what();
  }
  return outcome;
}

std::string find_implausible(const Outcome& outcome) {
  if (!outcome.simulation) return outcome.reason.empty() ? "no result and no reason" : "";
  const Summary& s = outcome.simulation->summary;
  for (const auto& [name, number] :
       {std::pair("iteration_time", s.iteration_time), std::pair("samples_per_s", s.samples_per_s),
        std::pair("tokens_per_s", s.tokens_per_s), std::pair("model_flop", s.model_flop),
        std::pair("tflops_per_gpu", s.tflops_per_gpu), std::pair("mfu", s.mfu),
        std::pair("hardware_tflops_per_gpu", s.hardware_tflops_per_gpu)}) {
    if (!is_positive(number)) return std::string(name) + " is " + std::to_string(number);
  }
  // The model's FLOP count causal attention as the full square; flash attention executes half of
  // it.
  if (s.mfu > 2) return "mfu is " + std::to_string(s.mfu);
  if (auto problem = find_implausible_time(s.time, s.iteration_time); !problem.empty())
    return problem;
  for (const TimeClasses& time : s.time_by_pipeline_rank) {
    if (auto problem = find_implausible_time(time, s.iteration_time); !problem.empty())
      return problem;
  }
  if (s.peak_memory.empty() || s.peak_memory.size() != s.memory_headroom.size())
    return "no memory peaks";
  bool fits = true;
  for (std::size_t rank = 0; rank < s.peak_memory.size(); ++rank) {
    const MemoryPeak& peak = s.peak_memory[rank];
    if (peak.total !=
        peak.parameters + peak.gradients + peak.optimizer_state + peak.activations + peak.buffers) {
      return "memory parts do not add up to their total";
    }
    if (std::min({peak.gradients, peak.optimizer_state, peak.activations, peak.buffers}) < 0 ||
        peak.parameters <= 0) {
      return "a part of the memory is negative";
    }
    if (s.memory_headroom[rank] != s.memory_capacity - peak.total)
      return "headroom is not capacity less total";
    fits = fits && s.memory_headroom[rank] >= 0;
  }
  if (fits != s.fits) return "fits does not follow from the headroom";
  if (s.program_digest.size() != 64) return "no digest";
  if (s.num_ranks < 1 || s.num_events < 1) return "no ranks or events";
  return {};
}

double contention_slack(const Summary& summary) {
  const auto& sources = summary.sources;
  const bool slows = std::any_of(sources.begin(), sources.end(), [](const SourceEntry& source) {
    return source.name.ends_with(".slowdown");
  });
  return slows ? 1e-3 : 1e-9;
}

}  // namespace trainyard
