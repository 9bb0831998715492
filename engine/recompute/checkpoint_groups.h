// Which consecutive modules of a sequential one are recomputed as one.
#pragma once

#include <cstddef>
#include <vector>

namespace trainyard {

/// Groups of module numbers, in order: as many consecutive modules of one stage as there are, but
/// at most `most` (1: each on its own). Karakus et al., Amazon SageMaker Model Parallelism
/// (arXiv:2111.05972), strategies each, contiguous and group_x of activation checkpointing.
std::vector<std::vector<std::size_t>> checkpoint_groups(const std::vector<int>& stage_of_module,
                                                        std::size_t most);

}  // namespace trainyard
