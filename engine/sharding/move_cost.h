// What a move costs on links: forward plus backward.
//
// The cluster enters as one alpha and beta per axis; a product group has the largest of its axes.
//   exact     alpha + beta x bytes that the busiest rank receives; 0 without communication
//   colossal  Colossal-AI's own figures, which charge an all-gather on the piece before it and a
//             split with 100 (colossalai/tensor/shape_consistency.py, device/device_mesh.py)
// With n bytes of a rank's gathered value and k ranks of the group, the busiest rank receives
// (k-1)/k n in an all-gather or reduce-scatter, twice that in an all-reduce, (k-1)/k of its local
// bytes in an all-to-all. Pieces that differ are counted by their boxes: what it holds afterwards
// and did not before; a reduce-scatter as its backward, the all-gather.
#pragma once

#include <optional>

#include "engine/base/indexed.h"
#include "engine/sharding/move.h"

namespace trainyard {

enum class MoveCostModel : std::uint8_t { kExact, kColossal };

struct AxisLink {
  double alpha = 0;  // seconds of a message, or any unit
  double beta = 1;   // seconds per byte, the same unit
};

struct MoveCosts {
  MoveCostModel model = MoveCostModel::kExact;
  Numbered<AxisLink> links;  // one per axis of the mesh
  double element_bytes = 1;
  bool gradient = true;  // false: forward alone, of values that have none
};

/// The slowest of the axes, as a product group has it.
AxisLink link_of(const MoveCosts& costs, const Axes& axes);

/// Elements that the busiest rank holds in `to` and not in `from`.
double lacking_elements(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                        const DeviceMesh& mesh);

/// Elements that the busiest rank receives when collective `kind` over `axes` takes a tensor from
/// spec `from` to spec `to`.
double received_elements(MoveKind kind, const Axes& axes, const TensorSpec& from,
                         const TensorSpec& to, const Extents& extents, const DeviceMesh& mesh);

struct MoveCost {
  double forward = 0;
  double backward = 0;
  double forward_bytes = 0;  // that the busiest rank receives
  double backward_bytes = 0;
  double total() const { return forward + backward; }
};

/// The cost of `move` from spec `before` to `after`. Under kColossal nothing is held: see
/// colossal_problem().
MoveCost move_cost(const Move& move, const TensorSpec& before, const TensorSpec& after,
                   const Extents& extents, const DeviceMesh& mesh, const MoveCosts& costs);

/// One direction, from how many elements are received (exact) and lie on the busiest rank before it
/// (colossal).
double collective_cost(MoveKind kind, double received, double local, std::int64_t ranks,
                       const AxisLink& link, const MoveCosts& costs);
/// The backward of a forward with `local` elements before and `local_after` behind it.
double backward_cost(const Move& move, double received, double local, double local_after,
                     std::int64_t ranks, const AxisLink& link, const MoveCosts& costs);

}  // namespace trainyard
