// The safetensors format: named tensors in one file, as Hugging Face publishes weights.
//
//   8 bytes         N, little-endian
//   N bytes         JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                         "__metadata__": {"text": "text"}}, padded with spaces
//   the rest        data, each tensor row by row, without holes between them
//
// https://github.com/huggingface/safetensors describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/mapped_file.h"
#include "real/checkpoint/host_file.h"

namespace trainyard {

struct SafetensorsEntry {
  std::string key;
  DType dtype = DType::kFp32;  // is_storable()
  std::vector<std::int64_t> shape;
};

/// Writes the header at once, then the data as it comes: `entries` in their order, each whole.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::span<const SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata);

  void append(std::span<const std::byte> bytes);  // of one entry, several, or a part of one
  FileStamp finish();                             // after all data

 private:
  OutputFile file_;
  std::int64_t left_ = 0;  // bytes of data to come
};

/// A tensor of an open file.
struct SafetensorsTensor {
  std::string dtype_name;      // as in the file: "BF16"
  std::optional<DType> dtype;  // nullopt: one that we have no arithmetic for
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // lives as long as the file; not aligned
};

/// A mapped file. Everything but the data is checked on opening; what does not fit the format
/// throws ConfigError with the file and the reason.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const std::map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trainyard
