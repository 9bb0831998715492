#include "engine/base/beside_program.h"

#include <filesystem>
#include <system_error>

namespace trainyard {

namespace fs = std::filesystem;

std::string program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string beside_program(const std::string& name) {
  std::error_code error;
  const fs::path folder = program_folder();
  for (const fs::path& file : {folder / name, folder.parent_path() / "lib" / "trainyard" / name}) {
    if (!folder.empty() && fs::is_regular_file(file, error)) return file.string();
  }
  return "";
}

}  // namespace trainyard
