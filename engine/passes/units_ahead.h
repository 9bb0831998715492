// How many of the units that a call reads first are gathered in front of it, and how many have been
// loaded by then: copied from where their shards lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/passes/unit_uses.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// One of the copies by which a shard that lies elsewhere comes to the device: from the drives to
/// the host, from the host to the device.
struct UnitLoad {
  StreamId stream = StreamId::kH2d;
  ValueId Bucket::*to = nullptr;
  std::int64_t ahead = 0;  // units before the one that computes
};

/// Those of a plan, in their order: each is made one unit further ahead than what follows it, the
/// last one than the gather.
std::vector<UnitLoad> unit_loads(const ZeroConfig& zero);

/// What a segment does, and how many of its units, and of which buckets, have been gathered before
/// it, or loaded: by each of the loads.
struct SegmentUnits {
  std::vector<UnitUse> uses;
  std::size_t fetched = 0;
  std::vector<std::size_t> fetched_buckets;
  std::vector<std::size_t> loaded;
  std::vector<std::vector<std::size_t>> loaded_buckets;
  std::size_t ahead() const { return loaded.empty() ? fetched : std::max(fetched, loaded[0]); }
};

/// Those that gather something, in their order.
std::vector<const UnitUse*> gathering(const std::vector<UnitUse>& uses);

/// Fills all but `uses`, of a segment of this phase: whatever comes before a call gathers as many
/// units for it as are gathered ahead, and may be at once.
void find_units_ahead(const ZeroConfig& zero, const std::vector<UnitLoad>& loads,
                      const UnitUses& of, Phase phase, SegmentUnits& units);

}  // namespace trainyard
