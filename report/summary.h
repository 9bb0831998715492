// The answer to a study: every number that `simulate` prints, computed from Program, trace, memory
// and costs. docs/contract.md, section 3, says exactly what each key means.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/units.h"
#include "engine/cost/cost_model.h"
#include "engine/exec/time_interval.h"
#include "engine/exec/trace.h"
#include "engine/graph/graph.h"
#include "engine/memory/memory.h"
#include "engine/program/program.h"
#include "report/layer_sharding.h"
#include "report/partition_view.h"
#include "report/resemblance.h"
#include "report/step_cost.h"
#include "report/transfer_summary.h"
#include "study/memory_error.h"
#include "study/study.h"

namespace trainyard {

struct Summary {
  std::string study;  // its file
  Seconds iteration_time = 0;
  std::optional<TimeInterval> interval;  // absent: no profile entry used says how uncertain it is
  double samples_per_s = 0;
  double tokens_per_s = 0;
  std::optional<StepCost> cost;  // where the study says a price
  Flop model_flop = 0;           // per step
  double tflops_per_gpu = 0;
  double mfu = 0;                      // of the dense peak of training.precision
  double hardware_tflops_per_gpu = 0;  // FLOP of executed ops
  TimeClasses time;                    // mean over ranks; adds up to iteration_time
  std::vector<TimeClasses> time_by_pipeline_rank;
  double bubble_fraction = 0;
  double exposed_communication_fraction = 0;
  std::vector<MemoryPeak> peak_memory;  // [pipeline rank]
  Bytes memory_capacity = 0;            // nominal less what the profile reserves
  std::vector<Bytes> memory_headroom;   // [pipeline rank]; negative: does not fit by so much
  bool fits = true;
  double memory_error = 0;  // of totals, to either side: calibrate/memory_error.yaml
  bool may_fit = false;     // the largest total is no further from the capacity than that
  std::int64_t num_ranks = 0;
  std::int64_t num_events = 0;
  std::string program_digest;
  ParameterCount num_parameters;
  std::optional<TransferSummary> transfers;  // with parallel.d2d_buffer
  std::vector<LinkLoad> links;  // the busiest first; empty where the executor has no network
  std::vector<std::string> warnings;
  std::vector<SourceEntry> sources;
  std::optional<LayerSharding> layer;      // absent in sweeps
  std::optional<PartitionView> partition;  // absent in sweeps
  std::optional<Resemblance> resembles;    // absent in sweeps
};

/// FLOP of one step: forward once, backward twice; every data-parallel replica runs all its
/// microbatches.
Flop model_flop_per_step(const Study& study, const Graph& model);

/// Share of the dense peak of training.precision over all ranks; 0 where the profile has no such
/// peak.
double model_flop_utilisation(const Study& study, const Graph& model,
                              const HardwareProfile& hardware, Seconds iteration_time);

struct SummaryInputs {
  const Study& study;
  const Graph& model;
  const Program& program;
  const Trace& trace;
  const std::vector<MemoryPeak>& memory;
  const HardwareProfile& hardware;
  const MemoryError& memory_error;
  const SourceLog& sources;
  std::string digest;  // program_digest()
};

Summary summarise(const SummaryInputs& in);

/// What does not fit and by how much, one line per pipeline rank concerned; empty when all fits.
std::string explain_misfit(const Summary& summary);
/// The line of the pipeline rank that misses most.
std::string explain_worst_misfit(const Summary& summary);

/// What a rank of the study runs on, as people call it: "GPU", or "device" where kernels are a
/// CPU's.
const char* device_word(KernelSet kernels);

/// The terminal's answer; `wall` is process start to answer.
std::string summary_text(const Summary& summary, const Study& study, Seconds wall);

/// {compute, optimizer, exposed_communication: {kind: seconds}, host, bubble}
nlohmann::ordered_json time_json(const TimeClasses& time);

/// summary.json and --json: the keys of the contract, in a fixed order.
std::string summary_json(const Summary& summary, Seconds wall);

}  // namespace trainyard
