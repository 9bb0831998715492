// Names of devices that differ from a shipped profile's in their memory alone: "b200-192g".
#pragma once

#include <optional>
#include <string>

#include "engine/cost/hardware_profile.h"

namespace trainyard {

struct NameWithCapacity {
  std::string device;   // as named
  std::string shipped;  // the profile of its kind; of several that of the nearest capacity
  Bytes capacity = 0;
};

/// What KIND-Ng names, where calibrate/profiles/ has KIND or KIND-Mg; nullopt: it has not, or has
/// the name itself.
std::optional<NameWithCapacity> name_with_capacity(const std::string& root,
                                                   const std::string& device);

/// `profile`, which is that of `named.shipped`, with the memory that the name says.
HardwareProfile with_capacity(HardwareProfile profile, const NameWithCapacity& named);

/// "a100-sxm" of "a100-sxm-80g": the device without its capacity.
std::string kind_of_device(const std::string& device);

}  // namespace trainyard
