// Tensors with samples along their first dim, in mapped files: pages are read when a sample is, so
// that a training set may be larger than memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "real/data/stored_tensor.h"

namespace trainyard {

class SafetensorsFile;
class MappedFile;

class TensorFiles {
 public:
  /// The tensors of one file, or of a folder's .npy files.
  struct Shard {
    std::string path;
    std::map<std::string, StoredTensor, std::less<>> tensors;
  };

  /// `path`: a file of safetensors; a folder of some, whose samples follow each other in the order
  /// of the files' names; or a folder of .npy files, each called as its tensor. Throws ConfigError,
  /// "FILE: reason".
  static TensorFiles open(const std::string& path);

  const std::vector<Shard>& shards() const { return shards_; }  // at least one

 private:
  void add_safetensors(const std::string& path);

  std::vector<Shard> shards_;
  std::vector<std::shared_ptr<const SafetensorsFile>> safetensors_;
  std::vector<std::shared_ptr<const MappedFile>> arrays_;
};

}  // namespace trainyard
