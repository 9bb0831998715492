#include "engine/program/program.h"

#include <string_view>

#include "engine/base/error.h"

namespace trainyard {

char letter(Phase phase) { return "FBIWRPUC"[static_cast<int>(phase)]; }

std::int64_t Mesh::num_ranks() const {
  std::int64_t product = 1;
  for (std::int32_t extent : size) product *= extent;
  return product;
}

std::int64_t num_elements(const Dims& dims) {
  std::int64_t product = 1;
  for (const Dim& dim : dims) product *= dim.expected;
  return product;
}

Bytes size_in_bytes(const Value& value) {
  std::int64_t product = size_in_bytes(value.dtype);
  for (const Dim& dim : value.dims) product *= dim.bound;
  return product;
}

ValueId storage_root(const Program& program, ValueId value) {
  while (program.values[static_cast<std::size_t>(value)].alias) {
    value = program.values[static_cast<std::size_t>(value)].alias->in;
  }
  return value;
}

Placement make_placement(const Mesh& mesh, std::string_view letters) {
  // Missing letters stand just left of T (of the end, where T is missing too).
  std::string order(letters);
  for (char axis : {'D', 'P', 'C', 'E', 'T'}) {
    if (order.find(axis) != std::string::npos) continue;
    const std::size_t t = order.find('T');
    order.insert(t == std::string::npos ? order.size() : t, 1, axis);
  }
  Placement placement;
  std::int64_t stride = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Axis axis = *it == 'D' ? Axis::kDp : *it == 'P' ? Axis::kPp : *it == 'C' ? Axis::kCp
                      : *it == 'E' ? Axis::kEp : Axis::kTp;
    placement.stride[static_cast<std::size_t>(axis)] = stride;
    stride *= mesh[axis];
  }
  return placement;
}

}  // namespace trainyard
