// How many nodes a pipeline spans, how often it is replicated, its stages and microbatches: RaNNC's
// search around its stage level.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/partition/stage_search.h"

namespace trainyard {

struct PipelineProblem {
  std::size_t num_blocks = 0;
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 1;
  std::int64_t batch = 1;  // samples of a step
  double memory = 0;       // that a stage may take
  StageRule rule = StageRule::kExact;
  // What is given already; 0: it is searched for. A pipeline with `each` spans all nodes.
  std::int64_t stages = 0;
  std::int64_t microbatches = 0;
  std::int64_t each = 0;  // devices that hold a stage, the same for all
  bool in_bytes = false;  // memory, for messages
};

/// Blocks [first, end) as a stage.
struct StageOfBlocks {
  std::size_t first = 0, end = 0;
  std::int64_t samples = 1;   // of a microbatch, on each device
  std::int64_t replicas = 1;  // all devices that hold it
  std::int64_t stages = 1, microbatches = 1;
  bool recompute = false;  // the backward runs the forward again
};

struct PipelineTrial {
  std::int64_t nodes = 0, replicas = 0, stages = 0, microbatches = 0;
  bool recompute = false;
  double time = 0;     // of a step; where there is a division
  std::string reason;  // why there is none; "": there is one
};

/// What a search is told of stages and steps.
struct PipelineCosts {
  std::function<StageCost(const StageOfBlocks& stage)> stage;
  std::function<double(std::size_t first, std::size_t end)> all_reduce;  // of its gradients
  /// A step of this division; Infeasible: it does not fit after all. Empty: it is estimated.
  std::function<std::variant<double, Infeasible>(const PipelineTrial& trial,
                                                 const StageDivision& division)>
      step = {};
};

struct PipelinePlan {
  PipelineTrial chosen;
  StageDivision stages;
  std::vector<std::int64_t> replicas;            // [stage]: devices that hold it
  std::vector<std::vector<std::int64_t>> ranks;  // [stage]
  std::vector<PipelineTrial> tried;
};

/// The least node count for which some number of stages fits, the least such number, and of the
/// microbatch counts 1, 2, 4, ... the one whose step is shortest. A pipeline spans n nodes and
/// there are N/n of them: n doubles (kPaper), or is a divisor of N. Stages: from n-1 nodes' devices
/// and one more up to n nodes' (kPaper), or from where n's predecessor ended. Microbatches: up to a
/// pipeline's samples; kCode: at most 32. Recomputation: with several stages, kCode with several
/// microbatches. Where all stages have `each` devices there is one pipeline, the fewest stages are
/// taken, and every device has as many samples of every microbatch. A step, unless it is given: for
/// each of its microbatches + stages - 1 slots the longest forward and backward of the stages at
/// work, with samples rounded up (kPaper: down), and the longest all-reduce of a stage with several
/// devices (kCode: of all). Tanaka et al., RaNNC (arXiv:2103.16063), algorithm 2, line 9 read with
/// the batch size.
std::variant<PipelinePlan, Infeasible> search_pipeline(const PipelineProblem& problem,
                                                       const PipelineCosts& costs);

/// Consecutive ranks dealt to stages in g rounds, g the greatest common divisor of `replicas`, each
/// round replicas/g to each stage.
std::vector<std::vector<std::int64_t>> flat_ranks(const std::vector<std::int64_t>& replicas);

}  // namespace trainyard
