// Which consecutive modules of a sequential one are recomputed as one.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

inline constexpr int kContiguousGroup = std::numeric_limits<int>::max();

/// Groups of module numbers, in order: as many consecutive modules of one stage as there are, but
/// at most `most` (1: each on its own). Karakus et al., Amazon SageMaker Model Parallelism
/// (arXiv:2111.05972), strategies each, contiguous and group_x of activation checkpointing.
std::vector<std::vector<std::size_t>> checkpoint_groups(const std::vector<int>& stage_of_module,
                                                        int most);

/// `most` of a strategy: each 1, group_k k, contiguous kContiguousGroup. nullopt: it is none of
/// them.
std::optional<int> group_of_strategy(std::string_view strategy);
std::string strategy_of_group(int most);  // the other way round

}  // namespace trainyard
