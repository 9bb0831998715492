// Studies of every kind of timeline, simulated with their rows.
#pragma once

#include <string>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/times/action_times.h"
#include "report/timeline.h"

namespace trainyard {

struct Simulated {
  Prepared prepared;
  Simulation result;
  Timeline timeline;
};

/// Simulates the study `yaml` with all rows kept. Throws where it cannot run.
Simulated simulate_text(const std::string& yaml, bool fold,
                        const std::vector<std::string>& sets = {});

/// Forwards and backwards in pairs, on two pipeline ranks of two stages each.
inline const std::string kPairsStudy =
    "model: {family: gpt, layers: 8, hidden: 256, heads: 4, vocab: 512, seq_len: 128}\n"
    "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 2, data: 2, "
    "sequence_parallel: true}\n"
    "training: {global_batch: 16, microbatch: 1}\nschedule: dualpipe-v\n";

/// 1F1B with tensor parallelism on two replicas; interleaved with ZeRO-1 and recompute; a
/// straggler; one rank; pairs.
inline const std::vector<std::string> kReportStudies = {
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

/// How long the actions of each stage take in a step with closed forms.
ActionTimes simulated_actions(const Prepared& prepared);

}  // namespace trainyard
