#include "engine/passes/compile.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/partition/stage_partition.h"
#include "engine/passes/buffer_transfers.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/half_order.h"
#include "engine/passes/host_waits.h"
#include "engine/passes/instantiate.h"
#include "engine/passes/lower.h"
#include "engine/passes/offload.h"
#include "engine/passes/pair_segments.h"
#include "engine/passes/post_validation.h"
#include "engine/passes/recompute.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/shard_megatron.h"
#include "engine/passes/split_backward.h"
#include "engine/passes/split_batch.h"
#include "engine/passes/step_segments.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/verify.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"
#include "engine/schedule/stage_form.h"

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

TrainingInputs training_inputs(const Plan& plan, const std::vector<StageForm>& forms) {
  const ParallelConfig& parallel = plan.parallel;
  const TrainingConfig& training = plan.training;
  return {plan.model,
          microbatch_sizes(training),
          training.dropout,
          training.precision,
          training.grad_dtype,
          training.flash_attention == FlashAttention::kOn,
          parallel.tensor,
          parallel.sequence_parallel,
          parallel.scatter_gather,
          parallel.tensor_overlap,
          kept_shares(plan.recompute, plan.schedule.method == "scp", recomputing_stages(forms)),
          turning_stage(forms),
          any_splits(forms),
          plan.partition,
          plan.recompute,
          plan.offload,
          plan.offload.activations ? stages_at_once(forms) : std::vector<bool>{},
          plan.framework};
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

SegmentInputs segment_inputs(const ProgramInputs& in, std::vector<StageForm> forms,
                             std::vector<StagePair> pairs) {
  const Plan& plan = in.plan;
  SegmentInputs out{std::move(forms), std::move(pairs),     plan.parallel,
                    plan.training,    plan.offload.horizon, plan.schedule.post_validation,
                    in.links};
  if (out.links.empty()) out.parallel.d2d_buffer = 0;
  for (StageForm& form : out.forms) form.at_once = false;  // the training graph has it
  // size_buckets() has the rest of it, unless each replica owns other parameters.
  if (!owns_parameters(plan.parallel)) out.parallel.data = std::min(plan.parallel.data, 2);
  out.parallel.placement = ParallelConfig{}.placement;
  out.training.global_batch = 0;
  out.training.microbatches = microbatch_sizes(plan.training);
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

std::variant<PipelineSchedule, Infeasible> schedule_of(const Plan& plan, PassLog& log) {
  // Lists of calls are explicit, so their length is what a Program costs.
  constexpr std::int64_t kMostActions = std::int64_t{1} << 23U;
  const ParallelConfig& parallel = plan.parallel;
  const std::int64_t num_stages = std::int64_t{parallel.pipeline} * parallel.virtual_stages;
  const std::int64_t actions = 2 * num_stages * plan.num_microbatches();
  if (actions > kMostActions) {
    return Infeasible{
        std::to_string(num_stages) + " stages x " + std::to_string(plan.num_microbatches()) +
            " microbatches are " + std::to_string(actions) +
            " actions a step; this version compiles up to " + std::to_string(kMostActions),
        "training.global_batch"};
  }
  return run_pass("schedule", log, [&]() -> std::variant<PipelineSchedule, Infeasible> {
    if (!plan.schedule.rows.empty())
      return parse_schedule_csv(plan.schedule.rows, plan.schedule.method);
    ScheduleSettings settings;
    settings.microbatch_group = plan.schedule.microbatch_group;
    return schedule_by_name(plan.schedule.method, parallel.pipeline, parallel.virtual_stages,
                            static_cast<int>(plan.num_microbatches()), false, settings);
  });
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

  std::optional<Infeasible> make(const Graph& model, const ProgramInputs& in,
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

std::optional<Infeasible> Compiler::Kept::make(const Graph& model, const ProgramInputs& in,
                                               const SoftwareProfile& software, PassLog& log) {
  const Plan& plan = in.plan;
  auto schedule = schedule_of(plan, log);
  if (auto* reason = std::get_if<Infeasible>(&schedule)) return *reason;
  log.schedule = std::move(std::get<PipelineSchedule>(schedule));

  std::vector<StageForm> forms = stage_forms(log.schedule);
  if (TrainingInputs wanted = trainyard::training_inputs(plan, forms); training_inputs != wanted) {
    training_inputs.reset();
    segment_inputs.reset();
    training.clear();
    for (std::size_t size = 0; size < wanted.sizes.size(); ++size) {
      auto made =
          make_training_graph(size == 0 ? model : model.smaller[size - 1], wanted, software, log);
      if (auto* reason = std::get_if<Infeasible>(&made)) return *reason;
      training.push_back(std::move(std::get<TrainingGraph>(made)));
    }
    training_inputs = std::move(wanted);
  }
  log.kept = training_inputs->kept;
  if (plan.recompute.method >= RecomputeConfig::Method::kStageAware)
    log.units = num_units(training.front(), plan.recompute.unit);
  log.first_layer = std::get<std::vector<std::int64_t>>(
      layer_ranges(model.num_layers, training.front().num_stages, plan.partition));

  if (const SegmentInputs wanted = trainyard::segment_inputs(
          in, std::move(forms), stage_pairs(log.schedule, size_of_microbatches(plan.training)));
      segment_inputs != wanted) {
    segment_inputs.reset();
    make_segments(wanted, software, log);
    segment_inputs = wanted;
  }
  Program& program = draft.program;
  program.mesh.size[index(Axis::kDp)] = plan.parallel.data;
  program.placement = make_placement(program.mesh, plan.parallel.placement);
  size_buckets(draft.plan, plan.parallel, program);
  draft.size_of = size_of_microbatches(plan.training);
  const auto lowered =
      run_pass("lower", log, [&] { return lower(draft, step, log.schedule, software); });
  if (const auto* reason = std::get_if<Infeasible>(&lowered)) return *reason;
  verify(log);
  return std::nullopt;
}

Compiler::Compiler() : kept_(std::make_unique<Kept>()) {}
Compiler::~Compiler() = default;

std::variant<const Program*, Infeasible> Compiler::compile(const Graph& model,
                                                           const ProgramInputs& in,
                                                           const SoftwareProfile& software,
                                                           PassLog& log) {
  if (kept_->program_inputs != in) {
    kept_->program_inputs.reset();
    kept_->infeasible = kept_->make(model, in, software, log);
    kept_->program_inputs = in;
  }
  if (kept_->infeasible) return *kept_->infeasible;
  return &kept_->draft.program;
}

const SharedSegments& Compiler::segments() const { return kept_->shared; }

Program Compiler::take() {
  Program program = std::move(kept_->draft.program);
  kept_ = std::make_unique<Kept>();
  return program;
}

std::variant<Program, Infeasible> compile(const Graph& model, const ProgramInputs& in,
                                          const SoftwareProfile& software, PassLog& log) {
  Compiler compiler;
  auto compiled = compiler.compile(model, in, software, log);
  if (auto* reason = std::get_if<Infeasible>(&compiled)) return std::move(*reason);
  return compiler.take();
}

}  // namespace trainyard
