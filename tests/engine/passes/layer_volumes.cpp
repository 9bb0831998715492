#include "tests/engine/passes/layer_volumes.h"

#include <algorithm>

namespace trainyard {

namespace {

std::int64_t elements_of(const Program& program, ValueId id) {
  std::int64_t elements = 1;
  for (const Dim& dim : program.values[id].dims) elements *= dim.bound;
  return elements;
}

}  // namespace

std::map<std::string, std::int64_t> layer_volumes(const Program& program,
                                                  const std::string& prefix) {
  std::map<std::string, std::int64_t> out;
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const std::string& module = program.modules[op.module];
      if (!module.starts_with(prefix) || !is_collective(op.kind) || op.reads.empty()) continue;
      const bool moments = module.find("norm_") != std::string::npos &&
                           program.values[op.reads[0].value].dims.back().bound <= 3;
      const std::int64_t elements = std::max(elements_of(program, op.reads[0].value),
                                             elements_of(program, op.writes[0].value));
      out[(segment.name == "0F" ? "F " : "B ") + std::string(to_string(op.kind)) + " " +
          program.groups[op.group].name + (moments ? " norm" : "")] += elements;
    }
  }
  return out;
}

std::string to_text(const std::map<std::string, std::int64_t>& volumes) {
  std::string out;
  for (const auto& [what, elements] : volumes)
    out += (out.empty() ? "" : ", ") + what + ": " + std::to_string(elements);
  return out;
}

}  // namespace trainyard
