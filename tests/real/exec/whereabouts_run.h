// A run on devices that end late, and where its ranks say that they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct Place {
  std::int32_t
      told = -1,
      expected = -1;  // calls of a rank's list: expected is that of the first op that has not ended
};

/// Trains `steps` steps of the study on two ranks, and looks where each is at the end of the steps
/// in which its host waited for one of its streams before.
std::vector<Place> places_of_late_devices(const std::string& yaml,
                                          const std::vector<std::string>& sets, int steps);

}  // namespace trainyard
