// How far predictions of memory are off: a total that is no further from the capacity may fit, and
// may not.
#pragma once

#include <string>

#include "engine/cost/hardware_profile.h"

namespace trainyard {

struct MemoryError {
  double value = 0;  // of the total, to either side
  Provenance provenance;
};

/// calibrate/memory_error.yaml of the folder `root`.
MemoryError read_memory_error(const std::string& root);

}  // namespace trainyard
