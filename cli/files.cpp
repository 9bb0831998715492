#include "cli/files.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/base/error.h"

namespace trainyard {

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BackendError("cannot make the folder " + folder + ": " + error.message());
}

void write_file(const std::string& path,
                const std::function<void(const std::function<void(std::string_view)>&)>& produce) {
  const std::string part = path + ".part" + std::to_string(getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  produce([&](std::string_view piece) { file.write(piece.data(), static_cast<std::streamsize>(piece.size())); });
  file.close();
  std::error_code error;
  if (!file) {
    const std::string reason = std::strerror(errno);
    std::filesystem::remove(part, error);
    throw BackendError("cannot write " + path + ": " + reason);
  }
  std::filesystem::rename(part, path, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(part, error);
    throw BackendError("cannot write " + path + ": " + reason);
  }
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, [&](const std::function<void(std::string_view)>& sink) { sink(text); });
}

}  // namespace trainyard
