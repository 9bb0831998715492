// Consecutive blocks as the stages of a pipeline, each on devices of its own that share its batch:
// RaNNC's stage level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// What a stage takes per microbatch on one device. Times in one unit, memory in another.
struct StageCost {
  double forward = 0, backward = 0;
  double send_forward = 0;   // of its outputs to the stage behind it
  double send_backward = 0;  // of its inputs' gradients to the stage before it
  double memory = 0;
};

/// The cost of the blocks [first, end) with `samples` on each of the `devices` that share a
/// microbatch.
using StageCosts = std::function<StageCost(std::size_t first, std::size_t end, std::int64_t samples,
                                           std::int64_t devices)>;

enum class StageRule {
  kPaper,  // algorithm 1 of the paper: of each table entry it keeps the best sum alone
  kCode,   // what the library's code does
  kExact,  // the least value of all divisions
};

struct StageProblem {
  std::size_t num_blocks = 0;
  std::int64_t stages = 1;
  std::int64_t devices = 1;       // all of which are given to stages
  std::int64_t batch = 1;         // samples
  std::int64_t replicas = 1;      // of the whole pipeline
  std::int64_t microbatches = 1;  // of each pipeline
  double memory = 0;              // that a stage may take
  StageRule rule = StageRule::kExact;
  bool round_up = false;            // a device's samples; false: down, as the paper has it
  bool powers_of_two = false;       // devices of a stage
  bool keep_least_devices = false;  // kPaper: d_min is set once, as line 6 has it
  std::int64_t each = 0;            // devices that every stage has; 0: as many as is best
  bool in_bytes = false;            // memory, for messages
};

struct StageDivision {
  double value = 0;                   // largest forward + largest backward
  double forward = 0, backward = 0;   // those
  std::vector<std::size_t> ends;      // [stage]: index behind its last block
  std::vector<std::int64_t> devices;  // [stage]
};

/// The stages of least value: forwards and backwards with what they send, each the largest of all
/// stages. Every device of a stage has at least one sample. kCode counts what a stage sends and
/// receives in both, but not in the maxima that it goes on with, gives no stage more devices than a
/// microbatch has samples, and stops at what it finds too large. Tanaka et al., RaNNC
/// (arXiv:2103.16063), algorithm 1. O(stages blocks^2 devices^2), kExact times how many pairs of
/// maxima are worth keeping: few.
std::variant<StageDivision, Infeasible> divide_into_stages(const StageProblem& problem,
                                                           const StageCosts& costs);

/// How many steps divide_into_stages() takes, about.
double stage_search_steps(const StageProblem& problem);

}  // namespace trainyard
