#include "tests/support/simulated.h"

#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/exec/analytic_executor.h"
#include "tests/support/studies.h"

namespace trainyard {

Simulated simulate_text(const std::string& yaml, bool fold, const std::vector<std::string>& sets) {
  Simulated out;
  out.prepared = prepare_text(yaml, sets);
  RunOptions options;
  options.record_rows = true;
  options.fold = fold;
  auto answer = simulate(out.prepared, options, {.verify = true});
  if (const auto* infeasible = std::get_if<Infeasible>(&answer))
    throw std::runtime_error(infeasible->reason);
  out.result = std::move(std::get<Simulation>(answer));
  out.timeline =
      make_timeline(out.result.program, out.result.trace,
                    fixed_memory(out.prepared.software, out.prepared.study.training.precision));
  return out;
}

const std::string kPairsStudy =
    "model: {family: gpt, layers: 8, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 2, data: 2, "
    "sequence_parallel: true}\n"
    "training: {global_batch: 16, microbatch: 1}\nschedule: dualpipe-v\n";

const std::vector<std::string> kReportStudies = {
    "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 2, data: 2, "
    "sequence_parallel: true}\n"
    "training: {global_batch: 16, microbatch: 1}\n",
    "model: {family: llama, layers: 8, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {pipeline: 4, data: 2, virtual_stages: "
    "2, zero: 1}\n"
    "training: {global_batch: 16, microbatch: 1}\nschedule: interleaved\nrecompute: full\n",
    "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n"
    "cluster: {device: a100-sxm-80g, nodes: 2, devices_per_node: 4, intra: {kind: nvlink, "
    "bandwidth: 300 GB/s, latency: 2 us}, "
    "inter: {kind: infiniband, bandwidth: 100 GB/s, latency: 5 us}, speed: {5: 0.5}}\n"
    "parallel: {tensor: 2, pipeline: 2, data: 2}\ntraining: {global_batch: 8, microbatch: 1}\n",
    "model: {family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
    "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 2, precision: fp32}\n",
    kPairsStudy};

ActionTimes simulated_actions(const Prepared& prepared) {
  const Program program = compiled_program(prepared);
  SourceLog sources;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
  RunOptions options;
  options.record_rows = true;
  const std::vector<Job> jobs = {Job{&program, 0}};
  ActionTimes times(prepared.study.parallel.pipeline);
  for (const RankTrace& rank : AnalyticExecutor().run(jobs, costs, options).ranks)
    times.add(program, rank.rows);
  return times;
}

}  // namespace trainyard
