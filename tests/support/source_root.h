// The folder that holds calibrate/ and topologies/: the root of the repository.
#pragma once

#include <filesystem>
#include <string>

namespace trainyard {

inline std::string source_root() {
#ifdef TRAINYARD_SOURCE_DIR
  return TRAINYARD_SOURCE_DIR;
#else
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().string();
#endif
}

}  // namespace trainyard
