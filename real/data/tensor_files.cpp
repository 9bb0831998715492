#include "real/data/tensor_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/base/mapped_file.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/safetensors.h"
#include "real/data/npy_file.h"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSafetensors = ".safetensors";
constexpr const char* kArray = ".npy";

/// Files of `folder` with that ending, sorted.
std::vector<fs::path> files_of(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  if (error) refuse(folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void TensorFiles::add_safetensors(const std::string& path) {
  const auto file = std::make_shared<SafetensorsFile>(path);
  Shard shard{path, {}};
  for (const auto& [name, tensor] : file->tensors())
    shard.tensors[name] = {path, tensor.dtype_name, tensor.dtype, tensor.shape, tensor.data};
  safetensors_.push_back(file);
  shards_.push_back(std::move(shard));
}

TensorFiles TensorFiles::open(const std::string& path) {
  TensorFiles files;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(kArray))
      refuse(path, "is one tensor of several; expected the folder that it lies in");
    files.add_safetensors(path);
    return files;
  }
  const std::vector<fs::path> shards = files_of(path, kSafetensors),
                              arrays = files_of(path, kArray);
  if (shards.empty() && arrays.empty())
    refuse(path, "has no files that end in .safetensors or .npy");
  if (!shards.empty() && !arrays.empty())
    refuse(path, "has both .safetensors and .npy files; expected those of one kind");
  for (const fs::path& shard : shards) files.add_safetensors(shard.string());
  if (arrays.empty()) return files;
  Shard shard{path, {}};
  for (const fs::path& array : arrays) {
    files.arrays_.push_back(std::make_shared<MappedFile>(array.string()));
    shard.tensors[array.stem().string()] = npy_tensor(*files.arrays_.back());
  }
  files.shards_.push_back(std::move(shard));
  return files;
}

}  // namespace trainyard
