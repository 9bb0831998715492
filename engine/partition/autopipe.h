// A sequence of subgraphs as the stages of a pipeline: AutoPipe, as Merak has it.
#pragma once

#include <cstddef>
#include <vector>

namespace trainyard {

enum class AutoPipeRule {
  kExact,  // the least largest load
  kCode,   // from there on, what Merak's search for the shortest step finds
};

struct StageSizes {
  std::vector<std::size_t> sizes;  // [stage]: how many subgraphs
  double time = 0;                 // of a step
  std::size_t critical = 0;        // the stage that is never idle in between, the last such one
  bool has_critical = false;       // else time is infinite
};

/// Stages of at least one subgraph each; as many as there are subgraphs at most. A subgraph's load
/// is its forward and backward. A step is 1F1B with twice as many microbatches as stages and no
/// communication, timed along the critical stage. kCode moves subgraphs behind that stage forward,
/// and the stage itself by a subgraph either way, as long as there is something new to try, and
/// keeps the shortest step; it looks at no more than 20,000 divisions. Liu et al., AutoPipe; Merak
/// (arXiv:2206.04959) 4.2 and its code.
StageSizes autopipe(const std::vector<double>& forward, const std::vector<double>& backward,
                    std::size_t num_stages, AutoPipeRule rule);

}  // namespace trainyard
