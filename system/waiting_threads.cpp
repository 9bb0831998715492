#include "system/waiting_threads.h"

#include <cstdlib>

namespace trainyard {

namespace {

/// Looks of 10 to 50 ns: at most 0.5 ms, and more than lies between two parallel regions of most
/// steps (bench/busy_machine.py).
constexpr const char* kSpins = "10000";

}  // namespace

bool limit_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    return false;
  return setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0) == 0;
}

}  // namespace trainyard
