#include "engine/partition/stage_search.h"

#include <algorithm>
#include <bit>
#include <string>

#include "engine/base/quantity.h"
#include "engine/base/readable.h"
#include "engine/partition/stage_table.h"

namespace trainyard {

namespace {

/// Samples of a microbatch on each of k devices.
std::int64_t samples_of(const StageProblem& problem, std::int64_t k) {
  const std::int64_t parts = problem.replicas * problem.microbatches * k;
  return problem.round_up ? (problem.batch + parts - 1) / parts : problem.batch / parts;
}

bool may_have(const StageProblem& problem, std::int64_t k) {
  if (problem.each > 0 && k != problem.each) return false;
  if (problem.powers_of_two && !std::has_single_bit(static_cast<std::uint64_t>(k))) return false;
  if (samples_of(problem, k) < 1) return false;
  return !problem.round_up || k <= samples_of(problem, 1);
}

std::string number_of(std::int64_t count, const std::string& what) {
  const std::string ending = count == 1 ? "" : (what.ends_with("ch") ? "es" : "s");
  return std::to_string(count) + " " + what + ending;
}

/// Why no division is possible, where numbers alone say so; "": they do not.
std::string obstacle(const StageProblem& problem) {
  if (problem.num_blocks == 0) return "there are no blocks to divide";
  if (problem.stages > static_cast<std::int64_t>(problem.num_blocks)) {
    return number_of(static_cast<std::int64_t>(problem.num_blocks), "block") + " cannot make " +
           number_of(problem.stages, "stage");
  }
  if (problem.stages > problem.devices) {
    return number_of(problem.devices, "device") + " cannot have " +
           number_of(problem.stages, "stage") + ", each at least one";
  }
  if (samples_of(problem, std::max<std::int64_t>(problem.each, 1)) < 1) {
    return "a batch of " + std::to_string(problem.batch) + " has no sample for each of " +
           number_of(problem.replicas, "replica") + " x " +
           number_of(problem.microbatches, "microbatch");
  }
  return "";
}

std::string memory_text(const StageProblem& problem, double memory) {
  return problem.in_bytes ? bytes_text(static_cast<Bytes>(memory)) : number_text(memory);
}

/// Where no division was found: memory, or the devices that stages may have.
std::string why_none(const StageProblem& problem, const StageCostTable& costs) {
  double least = kNoValue;
  std::size_t worst = 0;
  double needed = 0;
  for (std::size_t block = 0; block < problem.num_blocks; ++block) {
    least = kNoValue;
    for (std::int64_t k = 1; k <= problem.devices - problem.stages + 1; ++k) {
      if (costs.allowed(k)) least = std::min(least, costs.at(block, block + 1, k).memory);
    }
    if (least <= needed || least == kNoValue) continue;
    needed = least;
    worst = block;
  }
  if (needed > problem.memory) {
    return "block " + std::to_string(worst) + " alone needs memory of " +
           memory_text(problem, needed) + ", and a device has " +
           memory_text(problem, problem.memory);
  }
  return "no division into " + number_of(problem.stages, "stage") + " on " +
         number_of(problem.devices, "device") + " fits in memory of " +
         memory_text(problem, problem.memory) + " with a sample for every device" +
         (problem.powers_of_two ? " and a power of two of them per stage" : "");
}

}  // namespace

StageCostTable::StageCostTable(const StageProblem& problem, const StageCosts& costs)
    : num_blocks_(problem.num_blocks) {
  row_.assign(problem.devices + 1, -1);
  std::int64_t rows = 0;
  const std::int64_t most = problem.devices - problem.stages + 1;
  for (std::int64_t k = 1; k <= most; ++k) {
    if (may_have(problem, k)) row_[k] = rows++;
  }
  costs_.resize(rows * num_blocks_ * num_blocks_);
  for (std::int64_t k = 1; k <= most; ++k) {
    if (!allowed(k)) continue;
    for (std::size_t first = 0; first < num_blocks_; ++first) {
      for (std::size_t end = first + 1; end <= num_blocks_; ++end) {
        costs_[(row_[k] * num_blocks_ + first) * num_blocks_ + end - 1] =
            costs(first, end, samples_of(problem, k), k);
      }
    }
  }
}

std::variant<StageDivision, Infeasible> divide_into_stages(const StageProblem& problem,
                                                           const StageCosts& costs) {
  if (std::string reason = obstacle(problem); !reason.empty()) return Infeasible{std::move(reason)};
  const StageCostTable table(problem, costs);
  std::optional<StageDivision> found = problem.rule == StageRule::kExact
                                           ? stages_exactly(problem, table)
                                           : stages_by_table(problem, table);
  if (!found) return Infeasible{why_none(problem, table)};
  return *std::move(found);
}

double stage_search_steps(const StageProblem& problem) {
  const auto blocks = static_cast<double>(problem.num_blocks);
  const auto devices = static_cast<double>(problem.devices);
  const double searches = problem.rule == StageRule::kExact ? 4 : 1;
  const double lists = static_cast<double>(problem.stages) * blocks * blocks * devices * devices;
  return searches * lists / 4 + blocks * blocks * devices;
}

}  // namespace trainyard
