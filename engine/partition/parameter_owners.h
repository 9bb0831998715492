// Which data-parallel rank keeps the optimizer's state of which parameter, where parameters are not
// cut.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

/// Owner of each parameter of `sizes` elements, 0 <= owner < num_owners: the largest parameter
/// first, each to the owner that has least so far. Of equal parameters the earlier, of equal owners
/// the lower goes first. No owner has more than 4/3 of what the best division would give the
/// fullest (Graham 1969, largest processing time first). `known`: owners that are decided already,
/// -1 for the others; empty: none is.
std::vector<std::int32_t> balanced_owners(const std::vector<std::int64_t>& sizes,
                                          std::int32_t num_owners,
                                          std::vector<std::int32_t> known = {});

}  // namespace trainyard
