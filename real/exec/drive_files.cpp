#include "real/exec/drive_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "real/exec/left_drive_files.h"
#include "real/kernels/kernel.h"

namespace trainyard {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw BackendError("state on NVMe: " + path + ": " + problem);
}

std::string temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "trainyard-nvme-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(name, std::strerror(errno));
  return name;
}

/// Room is taken now: a drive that is full would end the process where it is written.
void make_file(const std::string& path, Bytes bytes) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail(path, std::strerror(errno));
  const int problem = bytes > 0 ? posix_fallocate(file, 0, bytes) : 0;
  close(file);
  if (problem != 0) fail(path, std::strerror(problem));
}

}  // namespace

DriveFiles::DriveFiles(const std::string& folder, std::int64_t rank)
    : in_run_(!folder.empty()),
      folder_(in_run_ ? folder + "/" + drive_folder_of(rank) : temporary_folder()) {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  if (problem) fail(folder_, problem.message());
}

DriveFiles::~DriveFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  // The folder around it goes with the last rank; one that holds others stays.
  if (in_run_) std::filesystem::remove(std::filesystem::path(folder_).parent_path(), ignored);
}

at::Tensor DriveFiles::zeros(const Value& value) const {
  const std::string path = folder_ + "/" + value.name;
  make_file(path, size_in_bytes(value));
  return at::from_file(path, /*shared=*/true, num_elements(value.dims),
                       at::TensorOptions(to_torch(value.dtype)));
}

}  // namespace trainyard
