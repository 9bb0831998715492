// Dims that ranks have unlike many elements of: of n pieces over k ranks the first n mod k have one
// more.
//
// The spec of such a dim says its extent, where others leave the count out: `25x1:tp` of a rank's
// 13 or 12. A rank's own extent follows from it; what is said once for all ranks (memory, times,
// where views lie in their storage) is of the largest piece.
#pragma once

#include <cstdint>

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct PieceSizes {
  std::int64_t most = 0, fewest = 0;  // elements of a rank
};

/// `extent`: of a part that says no count. Ranks at 0 along all its axes have most.
PieceSizes piece_sizes(const DimPart& part, std::int64_t extent, const DeviceMesh& mesh);

/// The extent that the spec says of a dim; 0: it says none.
std::int64_t counted_extent(const DimSplit& dim);

/// Whether some part of the dim has pieces of unlike size. `extent`: of the whole dim.
bool is_uneven(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh);
/// The same of a dim whose spec says its extent; others have pieces alike.
bool is_uneven(const DimSplit& dim, const DeviceMesh& mesh);
bool is_uneven(const TensorSpec& spec, const DeviceMesh& mesh);

/// The spec that says the extents of its uneven dims.
TensorSpec with_counts(TensorSpec spec, const Extents& extents, const DeviceMesh& mesh);

}  // namespace trainyard
