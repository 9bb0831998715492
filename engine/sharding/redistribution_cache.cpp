#include "engine/sharding/redistribution.h"

namespace trainyard {

namespace {

void put(std::string& key, std::int64_t value) {
  // Small numbers, which most are, take a byte.
  auto rest = static_cast<std::uint64_t>(value);
  for (; rest >= 128; rest >>= 7) key.push_back(static_cast<char>(rest | 128));
  key.push_back(static_cast<char>(rest));
}

void put(std::string& key, const Axes& axes) {
  put(key, static_cast<std::int64_t>(axes.size()));
  for (const AxisId axis : axes) put(key, axis);
}

void put(std::string& key, const TensorSpec& spec) {
  for (const DimSplit& dim : spec.dims) {
    put(key, static_cast<std::int64_t>(dim.parts.size()));
    for (const DimPart& part : dim.parts) {
      put(key, part.count * 2 + (part.reversed ? 1 : 0));
      put(key, part.unit);
      put(key, part.axes);
    }
    put(key, dim.after);
  }
  put(key, spec.partial * 2 + (spec.maximum ? 1 : 0));
  put(key, spec.entered);
  put(key, static_cast<std::int64_t>(spec.held.size()));
  for (const Held& held : spec.held) {
    put(key, held.axis);
    put(key, held.coordinate);
  }
}

}  // namespace

RedistributionCache::RedistributionCache(DeviceMesh mesh, MoveCosts costs)
    : mesh_(std::move(mesh)),
      costs_(std::move(costs)) {}

const std::variant<Redistribution, Infeasible>& RedistributionCache::find(const TensorSpec& from,
                                                                          const TensorSpec& to,
                                                                          const Extents& extents,
                                                                          double element_bytes) {
  std::string key;
  key.reserve(96);
  put(key, static_cast<std::int64_t>(extents.size()));
  for (const std::int64_t extent : extents) put(key, extent);
  put(key, from);
  put(key, to);
  key.append(reinterpret_cast<const char*>(&element_bytes), sizeof element_bytes);
  const auto at = paths_.find(key);
  if (at != paths_.end()) return at->second;
  MoveCosts costs = costs_;
  costs.element_bytes = element_bytes;
  return paths_.emplace(std::move(key), redistribute(from, to, extents, mesh_, costs))
      .first->second;
}

}  // namespace trainyard
