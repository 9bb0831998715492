// Where calibrate/ and topologies/ are.
#pragma once

#include <string>

namespace trainyard {

/// $TRAINYARD_ROOT, or the nearest folder above the running program that holds calibrate/profiles.
/// Throws ConfigError when there is none.
std::string data_root();

}  // namespace trainyard
