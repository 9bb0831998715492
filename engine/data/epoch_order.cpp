#include "engine/data/epoch_order.h"

#include "engine/data/permutation.h"

namespace trainyard {

std::int64_t EpochOrder::item_at(std::int64_t index, std::int64_t size) const {
  const std::int64_t place = index % size;
  return shuffle ? KeyedPermutation(size, seed, index / size)(place) : place;
}

}  // namespace trainyard
