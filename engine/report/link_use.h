// How much a link carried in one period of the step.
#pragma once

#include <string>

#include "engine/base/units.h"

namespace trainyard {

struct LinkUse {
  std::string name;
  BytesPerSecond capacity = 0;  // one direction
  Bytes bytes = 0;
  double busy_fraction = 0;  // bytes / (capacity x period)
  Seconds shared = 0;        // how long more than one flow was on it
};

}  // namespace trainyard
