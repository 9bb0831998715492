#include "engine/passes/units_ahead.h"

#include <utility>

namespace trainyard {

std::vector<UnitLoad> unit_loads(const ZeroConfig& zero) {
  if (!zero.offloads_parameters()) return {};
  const UnitLoad load = {StreamId::kH2d, &Bucket::loaded, zero.prefetch + 1};
  if (zero.offload.parameters != ZeroConfig::Place::kNvme) return {load};
  return {{StreamId::kNvmeIn, &Bucket::shard_read, zero.prefetch + 2}, load};
}

std::vector<const UnitUse*> gathering(const std::vector<UnitUse>& uses) {
  std::vector<const UnitUse*> out;
  for (const UnitUse& use : uses) {
    if (!use.gathers.empty()) out.push_back(&use);
  }
  return out;
}

void find_units_ahead(const ZeroConfig& zero, const std::vector<UnitLoad>& loads,
                      const UnitUses& of, Phase phase, SegmentUnits& units) {
  const std::vector<const UnitUse*> wanted = gathering(units.uses);
  std::int64_t freed = 0;
  for (const UnitUse* use : wanted) {
    freed += use->frees.empty() ? 0 : 1;
    if (std::cmp_equal(units.fetched, zero.prefetch) || freed > zero.gathers_in_flight) break;
    ++units.fetched;
    units.fetched_buckets.insert(units.fetched_buckets.end(), use->gathers.begin(),
                                 use->gathers.end());
  }
  for (std::size_t k = 0; k < loads.size(); ++k) {
    for (std::size_t i = 0; i < wanted.size() && std::cmp_less(i, loads[k].ahead); ++i) {
      for (const std::size_t index : wanted[i]->gathers) {
        if (!of.loads(index, phase)) continue;
        units.loaded[k] = i + 1;
        units.loaded_buckets[k].push_back(index);
      }
    }
  }
}

}  // namespace trainyard
