#include "engine/compile.h"

#include <chrono>
#include <utility>

#include "engine/graph/differentiate.h"
#include "engine/graph/select_kernels.h"
#include "engine/partition/stage_partition.h"
#include "engine/program/host_waits.h"
#include "engine/program/instantiate.h"
#include "engine/program/lower.h"
#include "engine/program/step_segments.h"
#include "engine/program/verify.h"
#include "engine/recompute/recompute.h"
#include "engine/schedule/pipeline_schedule.h"
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

void verify(const Program& program, const std::string& pass) {
  if (const auto problem = find_violation(program)) bug("after pass " + pass + ": " + *problem);
}

}  // namespace

ProgramInputs program_inputs(const Study& study) {
  return {study.model,    study.parallel,  study.training, study.partition,
          study.schedule, study.recompute, study.framework};
}

std::variant<Program, Infeasible> compile(const Graph& model, const Study& study,
                                          const SoftwareProfile& software, PassLog& log) {
  const ParallelConfig& parallel = study.parallel;
  const int num_stages = parallel.pipeline * parallel.virtual_stages;
  const DType grad_dtype = study.training.grad_dtype;

  const Graph kernels = run_pass("kernels", log, [&] {
    return select_kernels(model, software, study.training.flash_attention == FlashAttention::kOn);
  });
  verify(kernels, "kernels");

  auto sharded = run_pass("shard", log, [&] {
    return shard_megatron(kernels, parallel.tensor, parallel.sequence_parallel);
  });
  if (auto* reason = std::get_if<Infeasible>(&sharded)) return *reason;
  verify(std::get<Graph>(sharded), "shard");

  auto staged = run_pass("partition", log, [&] {
    return partition_stages(std::get<Graph>(sharded), num_stages, study.partition, parallel.tensor,
                            parallel.scatter_gather);
  });
  if (auto* reason = std::get_if<Infeasible>(&staged)) return *reason;
  verify(std::get<StagedGraph>(staged).graph, "partition");
  sharded = Graph{};  // deep models: a graph of 10^5 layers is a gigabyte
  log.first_layer = std::get<std::vector<std::int64_t>>(
      layer_ranges(model.num_layers, num_stages, study.partition));

  TrainingGraph training = run_pass("differentiate", log, [&] {
    return differentiate(std::get<StagedGraph>(staged), software, grad_dtype);
  });
  staged = StagedGraph{};
  run_pass("recompute", log, [&] {
    recompute(training, study.recompute, software);
    return 0;
  });

  // Lists of calls are explicit, so their length is what a Program costs.
  constexpr std::int64_t kMostActions = std::int64_t{1} << 23U;
  const std::int64_t actions = 2 * static_cast<std::int64_t>(num_stages) * study.num_microbatches();
  if (actions > kMostActions) {
    return Infeasible{std::to_string(num_stages) + " stages x " + std::to_string(study.num_microbatches()) +
                      " microbatches are " + std::to_string(actions) +
                      " actions a step; this version compiles up to " + std::to_string(kMostActions)};
  }
  auto schedule = run_pass("schedule", log, [&] {
    return make_schedule(study.schedule.method, parallel.pipeline, parallel.virtual_stages,
                         static_cast<int>(study.num_microbatches()));
  });
  if (auto* reason = std::get_if<Infeasible>(&schedule)) return *reason;
  const auto& order = std::get<PipelineSchedule>(schedule);

  ProgramDraft draft = run_pass("instantiate", log, [&] {
    return instantiate(training, parallel, study.training, grad_dtype);
  });
  if (software.synchronous_transfers && parallel.pipeline > 1) add_host_waits(draft);
  const StepSegments step = run_pass("step", log, [&] {
    return add_step_segments(draft, parallel, study.training, software);
  });
  const auto lowered = run_pass("lower", log, [&] { return lower(draft, step, order, software); });
  if (const auto* reason = std::get_if<Infeasible>(&lowered)) return *reason;
  renumber_tables(draft.program);
  draft.program.placement = make_placement(draft.program.mesh, parallel.placement);
  run_pass("verify", log, [&] {
    verify(draft.program, "lower");
    return 0;
  });

  log.schedule = order;
  return std::move(draft.program);
}

}  // namespace trainyard
