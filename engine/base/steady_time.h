// This process's steady clock, as a number.
#pragma once

#include <chrono>

#include "engine/base/units.h"

namespace trainyard {

inline Seconds steady_time() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trainyard
