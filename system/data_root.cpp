#include "system/data_root.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "engine/base/error.h"

namespace trainyard {

std::string data_root() {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("TRAINYARD_ROOT"); root != nullptr && *root != '\0')
    return root;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path at = program.parent_path(); !error && at != at.parent_path();
       at = at.parent_path()) {
    if (fs::is_directory(at / "calibrate" / "profiles", error)) return at.string();
    error.clear();
  }
  throw ConfigError(
      "no calibrate/profiles above the program; set TRAINYARD_ROOT to the folder that holds it");
}

}  // namespace trainyard
