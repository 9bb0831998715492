#include "engine/exec/channels/shape_edges.h"

namespace trainyard {

std::vector<GroupEdge> shape_edges(EdgeShape shape, std::int64_t distance,
                                   const std::vector<std::int64_t>& devices,
                                   std::int64_t devices_per_node) {
  std::vector<GroupEdge> out;
  const auto n = static_cast<std::int64_t>(devices.size());
  const auto add = [&](std::int64_t from, std::int64_t to) {
    out.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)});
  };
  const auto node = [&](std::int64_t i) { return devices.begin()[i] / devices_per_node; };
  const auto ring = [&](std::int64_t first, std::int64_t count, std::int64_t stride) {
    for (std::int64_t i = 0; i < count && count > 1; ++i)
      add(first + i * stride, first + (i + 1) % count * stride);
  };
  std::int64_t local = 1;  // members of the first node
  while (local < n && node(local) == node(0)) ++local;
  switch (shape) {
    case EdgeShape::kRing: ring(0, n, 1); break;
    case EdgeShape::kInnerRing:
      for (std::int64_t first = 0; first < n; first += local) ring(first, local, 1);
      break;
    case EdgeShape::kOuterRing:
      for (std::int64_t k = 0; k < local; ++k) ring(k, n / local, local);
      break;
    case EdgeShape::kExchange:
      for (std::int64_t i = 0; i < n; ++i) add(i, i ^ distance);
      break;
    case EdgeShape::kTreeUp:
    case EdgeShape::kTreeDown:
      for (std::int64_t i = distance; i < n; i += 2 * distance) {
        shape == EdgeShape::kTreeUp ? add(i, i - distance) : add(i - distance, i);
      }
      break;
    case EdgeShape::kPairs:
    case EdgeShape::kShift:
      for (std::int64_t by = 1; by < n; ++by) {
        for (std::int64_t i = 0; i < n; ++i) add(i, (i + by) % n);
      }
      break;
    case EdgeShape::kChain:
      for (std::int64_t i = 0; i + 1 < n; ++i) add(i, i + 1);
      break;
  }
  return out;
}

}  // namespace trainyard
