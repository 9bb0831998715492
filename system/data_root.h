// Where calibrate/ and topologies/ are.
#pragma once

#include <string>

namespace trainyard {

/// $TRAINYARD_ROOT, or the nearest folder above the running program that holds calibrate/profiles,
/// in it or in its share/trainyard. Throws ConfigError when there is none.
std::string data_root();

}  // namespace trainyard
