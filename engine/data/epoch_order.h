// In which order the items of files come: one after the other, or shuffled anew in every epoch.
#pragma once

#include <cstdint>

namespace trainyard {

struct EpochOrder {
  bool shuffle = true;
  std::int64_t seed = 1;

  /// The item of [0, size) at index i >= 0 of the training: place i % size of epoch i / size.
  std::int64_t item_at(std::int64_t index, std::int64_t size) const;
};

}  // namespace trainyard
