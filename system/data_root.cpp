#include "system/data_root.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "engine/base/beside_program.h"
#include "engine/base/error.h"

namespace trainyard {

std::string data_root() {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("TRAINYARD_ROOT"); root != nullptr && *root != '\0')
    return root;
  std::error_code error;
  const fs::path program = program_folder();
  for (fs::path at = program; !at.empty(); at = at.parent_path()) {
    for (const fs::path& root : {at, at / "share" / "trainyard"}) {
      if (fs::is_directory(root / "calibrate" / "profiles", error)) return root.string();
    }
    if (at == at.parent_path()) break;
  }
  throw ConfigError(
      "no calibrate/profiles above the program; set TRAINYARD_ROOT to the folder that holds it");
}

}  // namespace trainyard
