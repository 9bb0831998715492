#include "real/command/emulation.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "app/op_times_file.h"
#include "app/simulation.h"
#include "calibrate/validate/measured_costs.h"
#include "engine/base/error.h"
#include "engine/base/format.h"
#include "engine/base/user_text.h"
#include "engine/cost/cpu_profile.h"
#include "engine/program/no_ops.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "real/command/op_timing.h"
#include "real/cuda/cuda.h"
#include "report/trace_json.h"
#include "study/compile_study.h"
#include "study/profile_reader.h"
#include "study/study_words.h"
#include "study/study_writer.h"
#include "system/data_root.h"
#include "system/output_folder.h"
#include "system/this_cpu.h"

namespace trainyard {

namespace {

/// Where the ranks run: as asked, or the study's, or said to be another.
std::string choose_device(const EmulateOptions& options, const Study& study,
                          std::vector<std::string>& warnings) {
  const std::string own = kernels_word(study);
  const std::string wanted = options.device.empty() ? own : options.device;
  if (wanted == "cpu" || num_cuda_devices() > 0) return wanted;
  if (!options.device.empty())
    throw BackendError("--device cuda: this process sees no GPU: " + why_no_cuda());
  warnings.push_back("the study's devices are " + study.cluster.device +
                     ", and this process sees no GPU (" + why_no_cuda() +
                     "): emulated with the cpu's kernels, as --device cpu");
  return "cpu";
}

TrainingPlan plan_for(const EmulateOptions& options, const std::string& device, const Study& study,
                      const TimeOps& time_ops) {
  TrainOptions train;
  train.study = options.study;
  train.sets = options.sets;
  if (device != kernels_word(study)) train.sets.emplace_back("training.kernels=").append(device);
  train.sets.emplace_back(
      "data.path=synthetic");  // numbers mean nothing here, so no file of tokens has to be at hand
  return plan_training(train, time_ops);
}

/// Kernels of other devices than the study's have times of other devices too: those of this kind of
/// machine.
void take_peers_profile(const EmulateOptions& options, TrainingPlan& plan,
                        const std::string& device, std::vector<std::string>& warnings) {
  HardwareProfile& hardware = plan.prepared.hardware;
  const bool suits = (hardware.architecture == "cpu") == (device == "cpu");
  if (options.profile.empty() && suits) return;
  if (options.profile.empty() && device == "cuda") {
    warnings.push_back("predicted times are those of " + hardware.name +
                       "; --profile names the profile of this machine's GPU");
    return;
  }
  const std::string name =
      options.profile.empty() ? cpu_profile(cpu_flags()).name : options.profile;
  const auto other = find_hardware_profile(data_root(), name);
  if (!other)
    throw ConfigError("--profile: no hardware profile is named " + in_quotes(name) +
                      "; trainyard list profiles has them");
  if (const auto why = unsupported(*other, plan.prepared.study.training.precision)) {
    throw ConfigError("--profile " + name + ": " + *why);
  }
  hardware = *other;
}

void check_ranks(const EmulateOptions& options, const Program& program) {
  const std::int64_t ranks = program.mesh.num_ranks();
  for (const std::int64_t rank : options.ranks) {
    if (rank >= 0 && rank < ranks) continue;
    throw ConfigError("--rank: the plan has ranks 0 to " + std::to_string(ranks - 1) + ", not " +
                      std::to_string(rank));
  }
}

OwnTime predicted_time(const Program& program, const Costs& costs, std::int64_t rank,
                       std::size_t list) {
  OwnTime out;
  const auto& ops = costs.ops.at(1.0);
  for (const TraceRow& row : issued_rows(program, program.body[list])) {
    const auto s = row.segment;
    if (does_nothing(program, program.segments[s].ops[row.op], rank)) continue;
    const bool update = program.segments[s].phase == Phase::kUpdate;
    (update ? out.optimizer : out.compute) += ops[s][row.op].kernel;
  }
  return out;
}

/// Adds what was measured of the rank's kernels: means of the middle steps.
void take_measured(const Program& program, EmulatedAnswer& answer) {
  const RunMeasurement& run = answer.run.recorded;
  const std::vector<std::size_t> middle = middle_steps(run);
  for (const std::size_t i : middle) {
    const std::vector<TraceRow>& rows = run.steps[i].ranks[0].rows;
    const double share = 1 / static_cast<double>(middle.size());
    for (const TraceRow& row : rows) {
      const Segment& segment = program.segments[row.segment];
      const ProgramOp& op = segment.ops[row.op];
      if (!is_compute(op.stream) || op.kind == OpKind::kFree) continue;
      OwnTime& own = answer.measured;
      (segment.phase == Phase::kUpdate ? own.optimizer : own.compute) +=
          share * (row.end - row.start);
    }
    for (const Seconds host : host_times(program, rows, run.device == "cpu"))
      answer.host += share * host;
  }
  answer.step = median_step_time(run);
}

/// `costs` with those of the segments that the emulated ranks ran. Of several ranks of one pipeline
/// rank, which run the same segments, the last counts. `like`: of other segments too, as far as
/// their kinds of ops were recorded.
Costs recorded_costs(const Program& program, const Costs& costs,
                     const std::vector<EmulatedAnswer>& ranks, bool like) {
  const Lanes lanes = find_lanes(program);
  MeasuredCosts measured = measure_costs(program, lanes, ranks.front().run.recorded, false);
  for (const EmulatedAnswer& answer : ranks) {
    add_measured(measured, measure_costs(program, lanes, answer.run.recorded, false));
  }
  if (like) measured = spread_to_like_ops(program, std::move(measured), costs.ops.at(1.0));
  return replace_costs(costs, program, measured, [](const std::string&) { return true; });
}

TimeClasses mean_of_list(const Trace& trace, std::size_t list) {
  TimeClasses out;
  double ranks = 0;
  for (const RankTrace& rank : trace.ranks)
    ranks += rank.list == list ? static_cast<double>(rank.multiplicity) : 0;
  for (const RankTrace& rank : trace.ranks) {
    if (rank.list == list)
      add_scaled(out, rank.time, static_cast<double>(rank.multiplicity) / ranks);
  }
  return out;
}

/// What the study as it stands comes to, on its own devices.
Summary simulate_study(const Prepared& prepared) {
  auto answer = simulate(prepared, {});
  if (const auto* infeasible = std::get_if<Infeasible>(&answer)) {
    throw plan_error(prepared.study, *infeasible);
  }
  return std::get<Simulation>(std::move(answer)).summary;
}

/// The ranks one after the other, then all of them in one simulation.
void run_ranks(const EmulateOptions& options, const TrainingPlan& plan, const Summary& study,
               Emulation& out) {
  const Prepared& prepared = plan.prepared;
  SourceLog sources;
  const Costs costs = make_costs(plan.program, prepared.hardware, prepared.software,
                                 prepared.study.cluster, sources);
  for (const std::int64_t rank : options.ranks) {
    std::fprintf(stderr, "rank %lld runs alone on %s\n", static_cast<long long>(rank),
                 out.device.c_str());
    check_memory(plan, rank);
    EmulatedAnswer& answer = out.ranks.emplace_back();
    answer.run = emulate_rank(plan, rank, options.steps);
    answer.predicted = predicted_time(plan.program, costs, rank, answer.run.list);
    take_measured(plan.program, answer);
    const std::int32_t there =
        pipeline_rank_of(plan.program.body[answer.run.list].ranks, plan.program.mesh);
    answer.study_peak = study.peak_memory[there];
    answer.study_headroom = study.memory_headroom[there];
  }
  const std::unique_ptr<Executor> executor = make_executor(prepared.study.fidelity);
  const std::array<Job, 1> jobs = {Job{&plan.program, 0}};
  out.predicted_step = executor->run(jobs, costs, {}).period;
  out.recorded_step =
      executor->run(jobs, recorded_costs(plan.program, costs, out.ranks, false), {}).period;
  const Trace like = executor->run(jobs, recorded_costs(plan.program, costs, out.ranks, true), {});
  out.like_step = like.period;
  for (EmulatedAnswer& answer : out.ranks) answer.among_peers = mean_of_list(like, answer.run.list);
}

void write_results(OutputFolder& folder, const TrainingPlan& plan, const Emulation& emulation) {
  folder.write("study.resolved.yaml", folder.marked_yaml(resolved_study_text(plan.prepared.study)));
  folder.write("program.txt", [&](const auto& sink) { write_text(plan.program, true, sink); });
  Trace trace;
  for (const EmulatedAnswer& answer : emulation.ranks) {
    const RunMeasurement& run = answer.run.recorded;
    trace.ranks.push_back(run.steps[median_step(run)].ranks[0]);
    // One after the other on this machine: each from its own beginning.
    const Seconds begin = trace.ranks.back().rows.front().issued;
    for (TraceRow& row : trace.ranks.back().rows) {
      for (Seconds* time : {&row.issued, &row.ready, &row.start, &row.end}) *time -= begin;
    }
  }
  const Timeline timeline = make_timeline(plan.program, std::move(trace), {});
  folder.write("trace.json", [&](const auto& sink) { write_trace_json(timeline, sink); });
  folder.write("summary.json", emulation_json(emulation));
  folder.commit();
}

}  // namespace

bool Emulation::fits() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const EmulatedAnswer& answer) { return answer.study_headroom >= 0; });
}

Emulation emulate(const EmulateOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"emulate", options.study}, options.overwrite);
  Emulation out;
  OpTiming timing(options.device, options.threads, options.steps);
  const TimeOps time_ops = [&](const Study& one_stage) { return timing.time(one_stage); };
  const Prepared study = prepare(options.study, options.sets, "", time_ops);
  out.study = options.study;
  out.warnings = study.study.warnings;
  out.device = choose_device(options, study.study, out.warnings);
  TrainingPlan plan = plan_for(options, out.device, study.study, time_ops);
  check_ranks(options, plan.program);
  take_peers_profile(options, plan, out.device, out.warnings);
  use_threads(options.threads, study.study, study.study.parallel.num_ranks());
  for (const std::int64_t rank : options.ranks) check_memory(plan, rank);

  const Summary summary = simulate_study(study);
  out.study_device = study.study.cluster.device;
  out.study_digest = summary.program_digest;
  out.study_capacity = summary.memory_capacity;
  out.study_step = summary.iteration_time;
  out.digest = plan.digest;
  out.num_ranks = plan.num_ranks;
  out.threads = at::get_num_threads();
  out.peers_profile = plan.prepared.hardware.name;
  run_ranks(options, plan, summary, out);
  if (folder && !timing.all().empty()) {
    folder->write(kOpTimesFile, op_times_json({out.device, at::get_num_threads(), timing.all()}));
  }
  if (folder) write_results(*folder, plan, out);
  return out;
}

}  // namespace trainyard
