// Views as groups of finer dims. A view that makes several dims one says nothing about the
// elements: as long as its operand stands for it, a batch inside such a dim is still one to split.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/indexed.h"

namespace trainyard {

/// The coarsest dims of which both a's and b's are products of neighbours; dims of 1 of either
/// stay. Both have as many elements. nullopt: there are none, as of [6, 4] and [4, 6].
std::optional<std::vector<std::int64_t>> refined_dims(const std::vector<std::int64_t>& a,
                                                      const std::vector<std::int64_t>& b);

/// [dim of `dims`]: how many of `finer` it is the product of, at least one. Dims of 1 in between go
/// with the dim behind them, as the batch in front of heads does, but for the last, which is of
/// features. `finer` is refined_dims() of it and another.
Numbered<std::size_t> dim_groups(const std::vector<std::int64_t>& finer,
                                 const std::vector<std::int64_t>& dims);

}  // namespace trainyard
