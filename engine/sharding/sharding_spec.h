// How a tensor lies on the device mesh: per axis replicated, split along one dim, or partial sums.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/indexed.h"
#include "engine/sharding/axis.h"

namespace trainyard {

struct AxisPlacement {
  enum class Kind : std::uint8_t { kReplicate, kShard, kPartial } kind = Kind::kReplicate;
  std::uint8_t dim = 0;  // kShard: which dim of the tensor
  friend bool operator==(const AxisPlacement&, const AxisPlacement&) = default;
};

constexpr AxisPlacement replicate() { return {}; }
constexpr AxisPlacement shard(int dim) {
  return {AxisPlacement::Kind::kShard, static_cast<std::uint8_t>(dim)};
}
constexpr AxisPlacement partial() { return {AxisPlacement::Kind::kPartial, 0}; }

struct ShardingSpec {
  IndexedArray<Axis, AxisPlacement, kNumAxes> axes{};
  AxisPlacement& operator[](Axis axis) { return axes[axis]; }
  const AxisPlacement& operator[](Axis axis) const { return axes[axis]; }
  friend bool operator==(const ShardingSpec&, const ShardingSpec&) = default;
};

/// "dp:S0,tp:P" (replicated axes left out), "R" when replicated on all.
std::string to_string(const ShardingSpec& spec);

}  // namespace trainyard
