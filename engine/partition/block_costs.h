// What blocks cost as stages, where a stage costs what its tasks do: sums of a cost model's times
// and memory, and RaNNC's communication and state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/partition/stage_search.h"
#include "engine/partition/task_blocks.h"

namespace trainyard {

/// How parameters are kept: fp32; fp16 with fp32 masters and gradients; or float parameters under
/// automatic mixed precision, with stashed gradients.
enum class ParameterCopies { kFp32, kHalf, kStashed };

/// Bytes of the optimizer's state and copies for parameters of `bytes`, over `shards` ranks.
///   kFp32     factor x bytes / shards
///   kHalf     (2 masters + 2 gradients + 2 factor) x bytes / shards
///   kStashed  factor x bytes / shards + bytes
/// `factor`: state in parameters, 2 of Adam. RaNNC's code.
double optimizer_bytes(double bytes, double factor, ParameterCopies copies, std::int64_t shards);

/// Buffers of a stage: what it reads, the gradients of that, and what it sends. RaNNC's code, but
/// for what it clones.
double transfer_buffer_bytes(double inputs, double outputs);

struct BlockCostOptions {
  double bandwidth = 20.0 * (1 << 30) / 1e6;             // between stages, bytes per unit of time
  double all_reduce_bandwidth = 10.0 * (1 << 30) / 1e6;  // those are RaNNC's, per us
  double state_factor = 2;
  ParameterCopies copies = ParameterCopies::kFp32;
  bool shard_state = false;  // over a stage's replicas
  bool model_ends = false;   // the model's input and output are sent, too: as RaNNC's code counts
};

/// Memory of a stage by what it is for, bytes.
struct StageMemory {
  double forward_backward = 0, optimizer = 0, transfers = 0;
  double total() const { return forward_backward + optimizer + transfers; }
};

class BlockCosts {
 public:
  BlockCosts(const TaskGraph& graph, const std::vector<TaskBlock>& blocks,
             const BlockCostOptions& options);

  /// Blocks [first, end) with `samples` on a device, held by `replicas` of them.
  StageCost stage(std::size_t first, std::size_t end, std::int64_t samples, std::int64_t replicas,
                  bool recompute) const;
  StageMemory memory(std::size_t first, std::size_t end, std::int64_t samples,
                     std::int64_t replicas) const;
  double all_reduce(std::size_t first, std::size_t end) const;
  /// Bytes of a sample that a stage has from others and from outside, and sends to either.
  double inputs(std::size_t first, std::size_t end) const;
  double outputs(std::size_t first, std::size_t end) const;

 private:
  struct Range {
    TaskCost cost;  // tasks of several blocks once
    double from_stages = 0, from_outside = 0, to_stages = 0, to_outside = 0;
  };
  const Range& range(std::size_t first, std::size_t end) const {
    return ranges_[first * num_blocks_ + end - 1];
  }
  Range& range(std::size_t first, std::size_t end) {
    return ranges_[first * num_blocks_ + end - 1];
  }
  void add_costs(const TaskGraph& graph, const std::vector<TaskBlock>& blocks);
  void add_values(const TaskGraph& graph, const std::vector<TaskBlock>& blocks);

  std::size_t num_blocks_;
  BlockCostOptions options_;
  std::vector<Range> ranges_;
};

}  // namespace trainyard
