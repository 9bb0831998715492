// Which elements of the global tensor each rank holds.
//
// The one function from which local shapes, redistributions, bytes, checkpoints, initial values,
// data rows, positions, masks and random numbers (by global element) follow.
#pragma once

#include <optional>
#include <vector>

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

struct IndexRange {
  std::int64_t begin = 0;  // in elements of the global dim
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};
using IndexRanges = std::vector<IndexRange>;  // in local order, none empty, neighbours joined
using Box = std::vector<IndexRange>;          // one range per dim

/// Pieces [begin, end) of `count` that the coordinate gets: axis by axis, the first count mod k
/// ranks have one more.
IndexRange cut_pieces(std::int64_t count, const Axes& axes, const DeviceMesh& mesh,
                      const Coordinate& coordinate);

/// Elements of a dim that a rank holds. `without`: axes along which it is not the holder; parts
/// that these do not split are left out.
IndexRanges dim_ranges(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh,
                       const Coordinate& coordinate, AxisSet without = 0);

/// Elements that both have.
std::int64_t overlap(const IndexRanges& a, const IndexRanges& b);

/// Per dim what the rank holds; nullopt: nothing, since another holds it (H@k).
std::optional<std::vector<IndexRanges>> local_ranges(const TensorSpec& spec, const Extents& extents,
                                                     const DeviceMesh& mesh,
                                                     const Coordinate& coordinate);

/// Elements that the rank holds.
std::int64_t local_elements(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                            const Coordinate& coordinate);

/// The same as boxes of the global tensor, the last dim's ranges fastest.
std::vector<Box> boxes(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                       const Coordinate& coordinate);

}  // namespace trainyard
