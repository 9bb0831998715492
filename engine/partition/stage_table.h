// What the searches of stage_search.h share: costs of every stage that there could be, and tables
// by stages, blocks and devices so far.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/partition/stage_search.h"

namespace trainyard {

inline constexpr double kNoValue = std::numeric_limits<double>::infinity();

/// The costs of all stages that blocks [first, end) on k devices could make, asked for once.
class StageCostTable {
 public:
  StageCostTable(const StageProblem& problem, const StageCosts& costs);

  /// Whether a stage may have k devices: each has a sample, and k is allowed.
  bool allowed(std::int64_t k) const { return row_[k] >= 0; }
  const StageCost& at(std::size_t first, std::size_t end, std::int64_t k) const {
    return costs_[(row_[k] * num_blocks_ + first) * num_blocks_ + end - 1];
  }

 private:
  std::size_t num_blocks_;
  Numbered<std::int64_t> row_;  // [devices]
  std::vector<StageCost> costs_;
};

/// A value per stages s, blocks b and devices d, each up to a bound.
template <typename T>
class StageTable {
 public:
  StageTable(std::int64_t stages, std::size_t blocks, std::int64_t devices, T value)
      : blocks_(blocks + 1),
        devices_(devices + 1),
        entries_((stages + 1) * blocks_ * devices_, value) {}
  T& at(std::int64_t s, std::size_t b, std::int64_t d) {
    return entries_[(s * blocks_ + b) * devices_ + d];
  }

 private:
  std::size_t blocks_, devices_;
  std::vector<T> entries_;
};

/// Algorithm 1, of the paper or as its code has it.
std::optional<StageDivision> stages_by_table(const StageProblem& problem,
                                             const StageCostTable& costs);
/// The least value.
std::optional<StageDivision> stages_exactly(const StageProblem& problem,
                                            const StageCostTable& costs);

}  // namespace trainyard
