#include "system/files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/draft_file.h"
#include "engine/base/error.h"

namespace trainyard {

std::string read_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw ConfigError(path + ": is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": " + std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path,
                const std::function<void(const std::function<void(std::string_view)>&)>& produce) {
  DraftFile draft(path);
  produce([&](std::string_view piece) { draft.write(piece); });
  draft.publish();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, [&](const std::function<void(std::string_view)>& sink) { sink(text); });
}

}  // namespace trainyard
