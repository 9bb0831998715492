// Files of tensors that a test writes: safetensors, and arrays of numpy's.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "real/checkpoint/safetensors.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

struct WrittenTensor {
  std::string name;
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// `values` one behind the other as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// int64, of one dim.
inline WrittenTensor integers(const std::string& name, const std::vector<std::int64_t>& values) {
  return {name, DType::kInt64, {std::ssize(values)}, bytes_of(values)};
}

inline void write_safetensors(const std::string& path, const std::vector<WrittenTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const WrittenTensor& tensor : tensors)
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, entries, {});
  for (const WrittenTensor& tensor : tensors) writer.append(std::as_bytes(std::span(tensor.bytes)));
  writer.finish();
}

/// As numpy.save() writes version 1.0. `shape`: "(2, 3)".
inline void write_npy(const std::string& path, const std::string& descr, const std::string& shape,
                      const std::string& bytes, const std::string& fortran_order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran_order +
                       ", 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string text = std::string("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 255U);
  text += static_cast<char>(header.size() >> 8U);
  write_text(path, text + header + bytes);
}

}  // namespace trainyard
