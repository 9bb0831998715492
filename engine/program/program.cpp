#include "engine/program/program.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/program/program_words.h"

namespace trainyard {

char letter(Phase phase) { return program_words::kPhases[static_cast<std::size_t>(phase)]; }

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

const Value& moved_value(const Program& program, const ProgramOp& op) {
  const Operands& operands = op.kind == OpKind::kRecv ? op.writes : op.reads;
  return program.values[static_cast<std::size_t>(operands[0].value)];
}

void renumber_tables(Program& program) {
  std::vector<OpAttrs> attrs = {OpAttrs{}};
  std::vector<AttrId> new_attrs(program.attrs.size(), -1);
  std::vector<std::string> modules = {""};
  std::unordered_map<std::string, PathId> module_ids = {{"", 0}};
  for (Segment& segment : program.segments) {
    for (ProgramOp& op : segment.ops) {
      AttrId& known = new_attrs[static_cast<std::size_t>(op.attrs)];
      if (known < 0) {
        const auto& entry = program.attrs[static_cast<std::size_t>(op.attrs)];
        const auto it = std::find(attrs.begin(), attrs.end(), entry);
        known = static_cast<AttrId>(it - attrs.begin());
        if (it == attrs.end()) attrs.push_back(entry);
      }
      op.attrs = known;
      if (op.kind == OpKind::kFree) {
        op.module = 0;
        continue;
      }
      const std::string& name = program.modules[static_cast<std::size_t>(op.module)];
      const auto [it, fresh] = module_ids.emplace(name, static_cast<PathId>(modules.size()));
      if (fresh) modules.push_back(name);
      op.module = it->second;
    }
  }
  program.attrs = std::move(attrs);
  program.modules = std::move(modules);
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
    const Axis axis = *it == 'D'   ? Axis::kDp
                      : *it == 'P' ? Axis::kPp
                      : *it == 'C' ? Axis::kCp
                      : *it == 'E' ? Axis::kEp
                                   : Axis::kTp;
    placement.stride[static_cast<std::size_t>(axis)] = stride;
    stride *= mesh[axis];
  }
  return placement;
}

}  // namespace trainyard
