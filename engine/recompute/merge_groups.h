// Chains too long to be searched whole: consecutive groups as one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/recompute/chain.h"

namespace trainyard {

template <typename Size>
struct MergedChainOf {
  ChainOf<Size> chain;
  std::vector<int> ends;  // [group of it] groups of the whole up to here
};
using MergedChain = MergedChainOf<std::int64_t>;
using SizedMergedChain = MergedChainOf<double>;

/// At most `most` groups, whose largest saves as little as it can. What fits the merged chain fits
/// the whole: its groups have as extra what they hold inside beyond input, result and what they
/// save.
MergedChain merge_groups(const RecomputeChain& whole, int most);
SizedMergedChain merge_groups(const SizedChain& whole, int most);

/// The sequence of the whole chain that one of the merged chain, with groups up to `ends`, stands
/// for. It takes the same time.
std::vector<ChainOp> whole_sequence(const std::vector<int>& ends,
                                    const std::vector<ChainOp>& sequence);

}  // namespace trainyard
