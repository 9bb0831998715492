#include "engine/compile.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/config/microbatch_sizes.h"
#include "engine/config/study_origin.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/half_order.h"
#include "engine/graph/select_kernels.h"
#include "engine/graph/split_backward.h"
#include "engine/graph/split_batch.h"
#include "engine/partition/stage_partition.h"
#include "engine/program/buffer_transfers.h"
#include "engine/program/host_waits.h"
#include "engine/program/instantiate.h"
#include "engine/program/lower.h"
#include "engine/program/pair_segments.h"
#include "engine/program/post_validation.h"
#include "engine/program/step_segments.h"
#include "engine/program/verify.h"
#include "engine/recompute/offload.h"
#include "engine/recompute/recompute.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/stage_form.h"
#include "engine/sharding/shard_megatron.h"

namespace trainyard {

namespace {

template <typename Pass>
auto run_pass(const std::string& name, PassLog& log, const Pass& pass) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = pass();
  log.entries.push_back(
      {name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
  return result;
}

void verify(const Graph& graph, const std::string& pass) {
  if (const std::string problem = find_violation(graph); !problem.empty()) {
    bug("after pass " + pass + ": " + problem);
  }
}

/// All of a study that its training graph depends on, beside the model's graph and the software
/// profile, which the first and the last of these decide.
struct TrainingInputs {
  ModelConfig model;
  std::vector<std::int64_t> sizes;  // of microbatches
  double dropout;
  DType precision, grad_dtype;
  bool flash_attention;
  int tensor;
  bool sequence_parallel, scatter_gather;
  std::string tensor_overlap;
  std::vector<double> kept;  // [stage]: of kept_shares()
  std::int32_t turning_stage;
  bool splits;  // the backward
  PartitionConfig partition;
  RecomputeConfig recompute;
  OffloadConfig offload;
  std::vector<bool> at_once;  // [stage]; empty where nothing is offloaded
  FrameworkConfig framework;
  friend bool operator==(const TrainingInputs&, const TrainingInputs&) = default;
};

TrainingInputs training_inputs(const Study& study, const std::vector<StageForm>& forms) {
  const ParallelConfig& parallel = study.parallel;
  const TrainingConfig& training = study.training;
  return {study.model,
          microbatch_sizes(training),
          training.dropout,
          training.precision,
          training.grad_dtype,
          training.flash_attention == FlashAttention::kOn,
          parallel.tensor,
          parallel.sequence_parallel,
          parallel.scatter_gather,
          parallel.tensor_overlap,
          kept_shares(study.recompute, study.schedule.method == "scp", recomputing_stages(forms)),
          turning_stage(forms),
          any_splits(forms),
          study.partition,
          study.recompute,
          study.offload,
          study.offload.activations ? stages_at_once(forms) : std::vector<bool>{},
          study.framework};
}

/// All that the segments depend on, beside the training graph. What they are made of sees no more
/// of the study than this.
struct SegmentInputs {
  std::vector<StageForm> forms;  // [stage]
  std::vector<StagePair> pairs;
  ParallelConfig parallel;
  TrainingConfig training;
  int horizon;
  bool post_validation;
  std::vector<PipelineLink> links;
  friend bool operator==(const SegmentInputs&, const SegmentInputs&) = default;
};

SegmentInputs segment_inputs(const Study& study, std::vector<StageForm> forms,
                             std::vector<StagePair> pairs) {
  SegmentInputs out{std::move(forms),
                    std::move(pairs),
                    study.parallel,
                    study.training,
                    study.offload.horizon,
                    study.schedule.post_validation,
                    pipeline_links(study.cluster, study.parallel)};
  if (out.links.empty()) out.parallel.d2d_buffer = 0;
  for (StageForm& form : out.forms) form.at_once = false;  // the training graph has it
  // size_buckets() has the rest of it, unless each replica owns other parameters.
  if (!owns_parameters(study.parallel)) out.parallel.data = std::min(study.parallel.data, 2);
  out.parallel.placement = ParallelConfig{}.placement;
  out.training.global_batch = 0;
  out.training.microbatches = microbatch_sizes(study.training);
  return out;
}

/// Runs of layers between which the halves of a microbatch are joined: each layer, or each stage.
std::variant<std::vector<std::int64_t>, Infeasible> halved_runs(const std::string& overlap,
                                                                std::int64_t num_layers,
                                                                int num_stages,
                                                                const PartitionConfig& partition) {
  if (overlap == "across-blocks") return layer_ranges(num_layers, num_stages, partition);
  std::vector<std::int64_t> each(static_cast<std::size_t>(num_layers) + 1);
  std::iota(each.begin(), each.end(), 0);
  return each;
}

std::variant<TrainingGraph, Infeasible> make_training_graph(const Graph& model,
                                                            const TrainingInputs& in,
                                                            const SoftwareProfile& software,
                                                            PassLog& log) {
  const Graph kernels =
      run_pass("kernels", log, [&] { return select_kernels(model, software, in.flash_attention); });
  verify(kernels, "kernels");

  auto sharded = run_pass("shard", log,
                          [&] { return shard_megatron(kernels, in.tensor, in.sequence_parallel); });
  if (auto* reason = std::get_if<Infeasible>(&sharded)) return *reason;
  verify(std::get<Graph>(sharded), "shard");

  const auto num_stages = static_cast<int>(in.kept.size());
  if (in.tensor_overlap != "none") {
    const auto runs = halved_runs(in.tensor_overlap, model.num_layers, num_stages, in.partition);
    if (auto* reason = std::get_if<Infeasible>(&runs)) return *reason;
    sharded = run_pass("halves", log, [&] {
      return split_batch(std::get<Graph>(sharded), std::get<std::vector<std::int64_t>>(runs));
    });
    verify(std::get<Graph>(sharded), "halves");
  }

  auto staged = run_pass("partition", log, [&] {
    return partition_stages(std::get<Graph>(sharded), num_stages, in.partition, in.tensor,
                            in.scatter_gather, in.turning_stage);
  });
  if (auto* reason = std::get_if<Infeasible>(&staged)) return *reason;
  verify(std::get<StagedGraph>(staged).graph, "partition");
  sharded = Graph{};  // deep models: a graph of 10^5 layers is a gigabyte
  if (in.tensor_overlap != "none") {
    run_pass("overlap", log, [&] {
      order_halves(std::get<StagedGraph>(staged));
      return 0;
    });
  }

  TrainingGraph training = run_pass("differentiate", log, [&] {
    return differentiate(std::get<StagedGraph>(staged), software, in.grad_dtype);
  });
  staged = StagedGraph{};
  run_pass("recompute", log, [&] {
    recompute(training, in.recompute, software, in.kept);
    return 0;
  });
  if (in.splits) {
    run_pass("split", log, [&] {
      split_backward(training);
      return 0;
    });
  }
  if (in.offload.activations) {
    run_pass("offload", log, [&] {
      offload_checkpoints(training, in.offload, in.at_once);
      return 0;
    });
  }
  return training;
}

std::variant<PipelineSchedule, Infeasible> schedule_of(const Study& study, PassLog& log) {
  // Lists of calls are explicit, so their length is what a Program costs.
  constexpr std::int64_t kMostActions = std::int64_t{1} << 23U;
  const ParallelConfig& parallel = study.parallel;
  const std::int64_t num_stages = std::int64_t{parallel.pipeline} * parallel.virtual_stages;
  const std::int64_t actions = 2 * num_stages * study.num_microbatches();
  if (actions > kMostActions) {
    return Infeasible{std::to_string(num_stages) + " stages x " +
                      std::to_string(study.num_microbatches()) + " microbatches are " +
                      std::to_string(actions) + " actions a step; this version compiles up to " +
                      std::to_string(kMostActions)};
  }
  return run_pass("schedule", log, [&]() -> std::variant<PipelineSchedule, Infeasible> {
    if (!study.schedule.rows.empty())
      return parse_schedule_csv(study.schedule.rows, study.schedule.method);
    ScheduleSettings settings;
    settings.microbatch_group = study.schedule.microbatch_group;
    return schedule_by_name(study.schedule.method, parallel.pipeline, parallel.virtual_stages,
                            static_cast<int>(study.num_microbatches()), false, settings);
  });
}

/// Messages between hosts of one node take as long as its memory makes them.
void require_host_memory(const Study& study, const Program& program) {
  if (study.cluster.host.memory > 0) return;
  const std::vector<PipelineLink> links = pipeline_links(study.cluster, study.parallel);
  const auto pair = by_host_in_node(program, links);
  if (!pair) return;
  const bool full = link_between(links, pair->first, pair->second).obstacle.empty();
  fail_at(study, "parallel.d2d_buffer",
          "pipeline ranks " + std::to_string(pair->first) + " and " + std::to_string(pair->second) +
              " send by the host within a node" +
              std::string(full ? " where the buffer is full" : "") +
              ", whose memory bandwidth is not said; write cluster.host: {memory: 100 GB/s}, of "
              "one socket" +
              std::string(full ? ", or a larger buffer" : ""));
}

}  // namespace

struct Compiler::Kept {
  std::optional<ProgramInputs> program_inputs;  // of draft.program as it is, or of infeasible
  std::optional<Infeasible> infeasible;
  std::optional<TrainingInputs> training_inputs;
  std::vector<TrainingGraph> training;  // one for each size of microbatch, the largest first
  std::optional<SegmentInputs>
      segment_inputs;  // with training: of draft.program's segments, and of step
  ProgramDraft draft;
  StepSegments step;
  SharedSegments shared;
  ProgramVerifier verifier;
  bool verified = false;  // a Program with these segments has been

  std::optional<Infeasible> make(const Graph& model, const Study& study,
                                 const SoftwareProfile& software, PassLog& log);
  void make_segments(const SegmentInputs& in, const SoftwareProfile& software, PassLog& log);
  void verify(PassLog& log);
};

void Compiler::Kept::make_segments(const SegmentInputs& in, const SoftwareProfile& software,
                                   PassLog& log) {
  draft = ProgramDraft{};
  verified = false;
  draft = run_pass("instantiate", log, [&] {
    return instantiate(training, in.forms, in.parallel, in.training, in.training.grad_dtype,
                       in.horizon);
  });
  if (!in.links.empty()) {
    run_pass("buffers", log, [&] {
      buffer_transfers(draft, in.links, in.parallel.d2d_buffer);
      return 0;
    });
  }
  if (!in.pairs.empty()) {
    run_pass("pairs", log, [&] {
      add_pair_segments(draft, in.pairs);
      return 0;
    });
  }
  if (in.parallel.pipeline > 1 &&
      software.host_waits_for_transfers(any_splits(in.forms), in.parallel.virtual_stages > 1)) {
    add_host_waits(draft);
  }
  step = run_pass("step", log,
                  [&] { return add_step_segments(draft, in.parallel, in.training, software); });
  if (in.post_validation) {
    run_pass("post_validation", log, [&] {
      add_post_validation(draft, in.parallel, step);
      return 0;
    });
  }
  renumber_tables(draft.program);
  ++shared.number;
  shared.sized.assign(draft.program.values.size(), false);
  for (const Bucket& bucket : draft.plan.buckets) {
    for (const auto* values : {&bucket.whole, &bucket.shards}) {
      for (const ValueId value : *values) shared.sized[static_cast<std::size_t>(value)] = true;
    }
  }
}

void Compiler::Kept::verify(PassLog& log) {
  const auto problem = run_pass("verify", log, [&] {
    return verified ? verifier.find_violation_of_lists(draft.program)
                    : verifier.find_violation_of_all(draft.program);
  });
  if (problem) bug("after pass lower: " + *problem);
  verified = true;
}

std::optional<Infeasible> Compiler::Kept::make(const Graph& model, const Study& study,
                                               const SoftwareProfile& software, PassLog& log) {
  auto schedule = schedule_of(study, log);
  if (auto* reason = std::get_if<Infeasible>(&schedule)) return *reason;
  log.schedule = std::move(std::get<PipelineSchedule>(schedule));

  std::vector<StageForm> forms = stage_forms(log.schedule);
  if (TrainingInputs in = trainyard::training_inputs(study, forms); training_inputs != in) {
    training_inputs.reset();
    segment_inputs.reset();
    training.clear();
    for (std::size_t size = 0; size < in.sizes.size(); ++size) {
      auto made =
          make_training_graph(size == 0 ? model : model.smaller[size - 1], in, software, log);
      if (auto* reason = std::get_if<Infeasible>(&made)) return *reason;
      training.push_back(std::move(std::get<TrainingGraph>(made)));
    }
    training_inputs = std::move(in);
  }
  log.kept = training_inputs->kept;
  if (study.recompute.method >= RecomputeConfig::Method::kStageAware)
    log.units = num_units(training.front(), study.recompute.unit);
  log.first_layer = std::get<std::vector<std::int64_t>>(
      layer_ranges(model.num_layers, training.front().num_stages, study.partition));

  if (const SegmentInputs in = trainyard::segment_inputs(
          study, std::move(forms), stage_pairs(log.schedule, size_of_microbatches(study.training)));
      segment_inputs != in) {
    segment_inputs.reset();
    make_segments(in, software, log);
    segment_inputs = in;
  }
  Program& program = draft.program;
  program.mesh.size[index(Axis::kDp)] = study.parallel.data;
  program.placement = make_placement(program.mesh, study.parallel.placement);
  size_buckets(draft.plan, study.parallel, program);
  draft.size_of = size_of_microbatches(study.training);
  const auto lowered =
      run_pass("lower", log, [&] { return lower(draft, step, log.schedule, software); });
  if (const auto* reason = std::get_if<Infeasible>(&lowered)) return *reason;
  verify(log);
  return std::nullopt;
}

Compiler::Compiler() : kept_(std::make_unique<Kept>()) {}
Compiler::~Compiler() = default;

std::variant<const Program*, Infeasible> Compiler::compile(const Graph& model, const Study& study,
                                                           const SoftwareProfile& software,
                                                           PassLog& log) {
  ProgramInputs inputs = program_inputs(study);
  if (kept_->program_inputs != inputs) {
    kept_->program_inputs.reset();
    kept_->infeasible = kept_->make(model, study, software, log);
    kept_->program_inputs = std::move(inputs);
  }
  if (kept_->infeasible) return *kept_->infeasible;
  require_host_memory(study, kept_->draft.program);
  return &kept_->draft.program;
}

const SharedSegments& Compiler::segments() const { return kept_->shared; }

Program Compiler::take() {
  Program program = std::move(kept_->draft.program);
  kept_ = std::make_unique<Kept>();
  return program;
}

ProgramInputs program_inputs(const Study& study) {
  return {study.model,     study.parallel,  study.training,
          study.partition, study.schedule,  study.recompute,
          study.offload,   study.framework, pipeline_links(study.cluster, study.parallel)};
}

std::variant<Program, Infeasible> compile(const Graph& model, const Study& study,
                                          const SoftwareProfile& software, PassLog& log) {
  Compiler compiler;
  auto compiled = compiler.compile(model, study, software, log);
  if (auto* reason = std::get_if<Infeasible>(&compiled)) return std::move(*reason);
  return compiler.take();
}

}  // namespace trainyard
