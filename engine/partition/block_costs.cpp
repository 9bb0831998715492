#include "engine/partition/block_costs.h"

#include <algorithm>

namespace trainyard {

double optimizer_bytes(double bytes, double factor, ParameterCopies copies, std::int64_t shards) {
  const auto parts = static_cast<double>(shards);
  switch (copies) {
    case ParameterCopies::kFp32: return factor * bytes / parts;
    case ParameterCopies::kHalf: return (2 + 2 + 2 * factor) * bytes / parts;
    case ParameterCopies::kStashed: return factor * bytes / parts + bytes;
  }
  return 0;
}

double transfer_buffer_bytes(double inputs, double outputs) { return 2 * inputs + outputs; }

BlockCosts::BlockCosts(const TaskGraph& graph, const std::vector<TaskBlock>& blocks,
                       const BlockCostOptions& options)
    : num_blocks_(blocks.size()),
      options_(options),
      ranges_(blocks.size() * blocks.size()) {
  add_costs(graph, blocks);
  add_values(graph, blocks);
}

void BlockCosts::add_costs(const TaskGraph& graph, const std::vector<TaskBlock>& blocks) {
  std::vector<std::size_t> seen(graph.tasks.size(), kOutside);  // by which first block
  std::vector<std::size_t> in(graph.tasks.size(), 0);           // blocks that have the task
  for (const TaskBlock& block : blocks) {
    for (const std::size_t task : block.tasks) ++in[task];
  }
  for (std::size_t first = 0; first < num_blocks_; ++first) {
    TaskCost sum;
    for (std::size_t end = first + 1; end <= num_blocks_; ++end) {
      const TaskBlock& block = blocks[end - 1];
      TaskCost again;
      for (const std::size_t task : block.tasks) {
        if (in[task] > 1 && seen[task] == first) again += graph.tasks[task];
        seen[task] = first;
      }
      sum += block.cost;
      sum.forward -= again.forward;
      sum.backward -= again.backward;
      sum.memory -= again.memory;
      sum.activation -= again.activation;
      sum.parameters -= again.parameters;
      range(first, end).cost = sum;
    }
  }
}

void BlockCosts::add_values(const TaskGraph& graph, const std::vector<TaskBlock>& blocks) {
  // Constant tasks are cloned: only a task that is in one block makes a value that is sent.
  std::vector<std::size_t> block_of(graph.tasks.size(), kOutside), in(graph.tasks.size(), 0);
  for (std::size_t b = 0; b < num_blocks_; ++b) {
    for (const std::size_t task : blocks[b].tasks) {
      block_of[task] = b;
      ++in[task];
    }
  }
  for (const TaskValue& value : graph.values) {
    const bool outside = value.producer == kOutside;
    if (!outside && in[value.producer] != 1) continue;
    const std::size_t maker = outside ? kOutside : block_of[value.producer];
    std::vector<std::size_t> readers;
    for (const std::size_t reader : value.readers) {
      if (block_of[reader] != kOutside && block_of[reader] != maker)
        readers.push_back(block_of[reader]);
    }
    std::ranges::sort(readers);
    // Read by ranges that begin behind its maker and reach the first reader there.
    std::size_t r = 0;
    for (std::size_t first = outside ? 0 : maker + 1; first < num_blocks_; ++first) {
      while (r < readers.size() && readers[r] < first) ++r;
      if (r == readers.size()) break;
      Range& from = range(first, readers[r] + 1);
      (outside ? from.from_outside : from.from_stages) += value.bytes;
    }
    if (outside) continue;
    // Sent by ranges that have its maker and end in front of its last reader.
    for (std::size_t first = 0; first <= maker; ++first) {
      if (value.leaves) range(first, maker + 1).to_outside += value.bytes;
      if (readers.empty() || readers.back() < maker) continue;
      range(first, maker + 1).to_stages += value.bytes;
      range(first, readers.back() + 1).to_stages -= value.bytes;
    }
  }
  // So far each has what begins or ends with its last block.
  for (std::size_t first = 0; first < num_blocks_; ++first) {
    for (std::size_t end = first + 2; end <= num_blocks_; ++end) {
      const Range& before = range(first, end - 1);
      Range& r = range(first, end);
      r.from_stages += before.from_stages;
      r.from_outside += before.from_outside;
      r.to_stages += before.to_stages;
      r.to_outside += before.to_outside;
    }
  }
}

double BlockCosts::inputs(std::size_t first, std::size_t end) const {
  return range(first, end).from_stages + range(first, end).from_outside;
}

double BlockCosts::outputs(std::size_t first, std::size_t end) const {
  return range(first, end).to_stages + range(first, end).to_outside;
}

StageMemory BlockCosts::memory(std::size_t first, std::size_t end, std::int64_t samples,
                               std::int64_t replicas) const {
  const TaskCost& cost = range(first, end).cost;
  const auto count = static_cast<double>(samples);
  return {cost.memory + cost.activation * count,
          optimizer_bytes(cost.parameters, options_.state_factor, options_.copies,
                          options_.shard_state ? replicas : 1),
          transfer_buffer_bytes(inputs(first, end), outputs(first, end)) * count};
}

StageCost BlockCosts::stage(std::size_t first, std::size_t end, std::int64_t samples,
                            std::int64_t replicas, bool recompute) const {
  const Range& r = range(first, end);
  const auto count = static_cast<double>(samples);
  StageCost out;
  out.forward = r.cost.forward * count;
  out.backward = r.cost.backward * count + (recompute ? out.forward : 0);
  const double sent = r.to_stages + (options_.model_ends ? r.to_outside : 0);
  const double read = r.from_stages + (options_.model_ends ? r.from_outside : 0);
  out.send_forward = sent * count / options_.bandwidth;
  out.send_backward = read * count / options_.bandwidth;
  out.memory = memory(first, end, samples, replicas).total();
  return out;
}

double BlockCosts::all_reduce(std::size_t first, std::size_t end) const {
  return range(first, end).cost.parameters / options_.all_reduce_bandwidth;
}

}  // namespace trainyard
