// A tensor of a mapped file, whatever the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"

namespace trainyard {

struct StoredTensor {
  std::string file;
  std::string type_name;       // as in the file: "BF16", "<f4"
  std::optional<DType> dtype;  // nullopt: one that we have no arithmetic for
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // row by row; lives as long as the mapping; not aligned
};

}  // namespace trainyard
