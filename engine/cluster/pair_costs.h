// What each pair of devices takes for a message.
#pragma once

#include <vector>

namespace trainyard {

/// A message of n bytes takes alpha + n beta, in any unit of time.
struct PairCost {
  double alpha = 0;
  double beta = 0;
};

/// [a][b], the same both ways; that of a device with itself means nothing.
using PairCosts = std::vector<std::vector<PairCost>>;

}  // namespace trainyard
