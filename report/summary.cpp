#include "report/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/base/format.h"
#include "engine/base/place_of.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

namespace {

std::string gib(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

std::string misfit_of(const Summary& summary, std::size_t rank) {
  const MemoryPeak& peak = summary.peak_memory[rank];
  return "pipeline rank " + std::to_string(rank) + " needs " + gib(peak.total) + " of " +
         gib(summary.memory_capacity) + ", " + gib(-summary.memory_headroom[rank]) +
         " too much: parameters " + gib(peak.parameters) + ", gradients " + gib(peak.gradients) +
         ", optimizer state " + gib(peak.optimizer_state) + ", activations " +
         gib(peak.activations) + ", buffers " + gib(peak.buffers) + " (at " + peak.instant + ")";
}

/// Closed forms count who is behind a NIC only where channels are alike.
void warn_of_shared_nics(const Study& study, std::vector<std::string>& warnings) {
  const Cluster& cluster = study.cluster;
  if (study.fidelity != "analytic" || cluster.num_nodes == 1) return;
  if (cluster.num_nics() >= cluster.devices_per_node) return;
  const bool one = cluster.num_nics() == 1;
  warnings.push_back("fidelity analytic: the " + std::to_string(cluster.devices_per_node) +
                     " devices of a node share " +
                     (one ? "one NIC" : std::to_string(cluster.num_nics()) + " NICs") +
                     ": counted among messages that are alike; with fidelity fluid all share");
}

/// Attention counts as the full square (docs/contract.md), most of which a mask may leave out.
void warn_of_uncounted_mask(const Summary& summary, std::vector<std::string>& warnings) {
  if (summary.mfu <= 1 || summary.hardware_tflops_per_gpu >= summary.tflops_per_gpu) return;
  warnings.push_back(
      format("MFU is %.0f %% because it counts attention as the full square, most of which windows "
             "or documents leave out: what is executed is %.0f %% of the peak",
             summary.mfu * 100,
             summary.hardware_tflops_per_gpu / summary.tflops_per_gpu * summary.mfu * 100));
}

}  // namespace

Flop model_flop_per_step(const Study& study, const Graph& model) {
  if (study.training.microbatches.empty() && study.parallel.replicas.empty()) {
    return 3.0 * model.model_flop_per_microbatch * static_cast<double>(study.num_microbatches()) *
           study.parallel.data;
  }
  return 3.0 * model.model_flop_per_microbatch /
         static_cast<double>(local_sizes(study.training, study.parallel).front()) *
         static_cast<double>(study.training.global_batch);
}

double model_flop_utilisation(const Study& study, const Graph& model,
                              const HardwareProfile& hardware, Seconds iteration_time) {
  const DType precision =
      study.training.fp8.on() ? product_type(hardware, DType::kFp8) : study.training.precision;
  const auto peak = hardware.peak.find(precision);
  if (peak == hardware.peak.end() || peak->second <= 0) return 0;
  const double rank_seconds = iteration_time * static_cast<double>(study.parallel.num_ranks());
  return model_flop_per_step(study, model) / rank_seconds / peak->second;
}

Summary summarise(const SummaryInputs& in) {
  const Study& study = in.study;
  Summary out;
  out.study = study.file;
  out.num_ranks = in.program.mesh.num_ranks();
  out.num_events = in.trace.num_events;
  out.iteration_time = in.trace.period;
  out.transfers = summarise_transfers(in.program, in.study);
  out.links = in.trace.links;
  out.warnings = study.warnings;
  if (!in.trace.steady) {
    out.warnings.push_back("step times had not settled to 1e-9 after " +
                           std::to_string(in.trace.step_ends.size()) + " steps");
  }
  warn_of_shared_nics(study, out.warnings);
  const double tokens = static_cast<double>(tokens_per_sample(study.model));
  out.samples_per_s = static_cast<double>(study.training.global_batch) / out.iteration_time;
  out.tokens_per_s = out.samples_per_s * tokens;
  out.cost = step_cost(study, out.iteration_time, out.tokens_per_s);
  out.model_flop = model_flop_per_step(study, in.model);
  const double rank_seconds = out.iteration_time * static_cast<double>(out.num_ranks);
  out.tflops_per_gpu = out.model_flop / rank_seconds / 1e12;
  // The Program has its own number of ranks where tensor degrees are unlike.
  out.mfu = model_flop_utilisation(study, in.model, in.hardware, out.iteration_time) *
            static_cast<double>(study.parallel.num_ranks()) / static_cast<double>(out.num_ranks);

  Flop executed = 0;
  const auto pipeline_rank = [&](std::size_t list) {
    return pipeline_rank_of(in.program.body[list].ranks, in.program.mesh);
  };
  out.time_by_pipeline_rank.resize(num_pipeline_ranks(in.program.mesh));
  std::vector<double> ranks_there(out.time_by_pipeline_rank.size(), 0);
  for (const RankTrace& rank : in.trace.ranks) {
    const auto weight = static_cast<double>(rank.multiplicity);
    executed += weight * rank.executed_flop;
    add_scaled(out.time, rank.time, weight / static_cast<double>(out.num_ranks));
    add_scaled(out.time_by_pipeline_rank[pipeline_rank(rank.list)], rank.time, weight);
    ranks_there[pipeline_rank(rank.list)] += weight;
  }
  for (std::size_t p = 0; p < ranks_there.size(); ++p) {
    TimeClasses mean;
    add_scaled(mean, out.time_by_pipeline_rank[p], 1.0 / std::max(1.0, ranks_there[p]));
    out.time_by_pipeline_rank[p] = mean;
  }
  out.hardware_tflops_per_gpu = executed / rank_seconds / 1e12;
  warn_of_uncounted_mask(out, out.warnings);
  out.bubble_fraction = out.time.bubble / out.iteration_time;
  out.exposed_communication_fraction = out.time.exposed_total() / out.iteration_time;

  // The fullest of the lists of a pipeline rank.
  for (std::size_t list = 0; list < in.memory.size(); ++list) {
    if (pipeline_rank(list) == std::ssize(out.peak_memory))
      out.peak_memory.push_back(in.memory[list]);
    MemoryPeak& fullest = out.peak_memory.back();
    if (in.memory[list].total > fullest.total) fullest = in.memory[list];
  }
  out.memory_capacity = in.hardware.memory_capacity - in.hardware.memory_reserved;
  for (const MemoryPeak& peak_memory : out.peak_memory) {
    out.memory_headroom.push_back(out.memory_capacity - peak_memory.total);
    out.fits = out.fits && out.memory_headroom.back() >= 0;
  }
  out.memory_error = in.memory_error.value;
  out.may_fit = may_fit(in.memory, out.memory_capacity, out.memory_error);
  out.program_digest = in.digest;
  out.num_parameters = count_parameters(in.model);
  out.sources = in.sources.entries();
  out.sources.insert(out.sources.end(), in.trace.sources.begin(), in.trace.sources.end());
  std::sort(out.sources.begin(), out.sources.end(),
            [](const SourceEntry& a, const SourceEntry& b) { return a.name < b.name; });
  return out;
}

std::string explain_misfit(const Summary& summary) {
  std::string text;
  for (std::size_t rank = 0; rank < summary.memory_headroom.size(); ++rank) {
    if (summary.memory_headroom[rank] >= 0) continue;
    text += (text.empty() ? "" : "\n") + misfit_of(summary, rank);
  }
  return text;
}

std::string explain_worst_misfit(const Summary& summary) {
  const auto& headroom = summary.memory_headroom;
  const auto worst = std::min_element(headroom.begin(), headroom.end());
  if (worst == headroom.end() || *worst >= 0) return "";
  return misfit_of(summary, length_between(headroom.begin(), worst));
}

}  // namespace trainyard
