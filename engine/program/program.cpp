#include "engine/program/program.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/program/program_words.h"

namespace trainyard {

char letter(Phase phase) { return program_words::kPhases[position(phase)]; }

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
  while (program.values[value].alias) {
    value = program.values[value].alias->in;
  }
  return value;
}

const Value& moved_value(const Program& program, const ProgramOp& op) {
  const Operands& operands = op.kind == OpKind::kRecv ? op.writes : op.reads;
  return program.values[operands[0].value];
}

TensorSpec spec_of(const Program& program, const Value& value) {
  return value.spec == kNoIndex ? replicated_spec(value.dims.size()) : program.specs[value.spec];
}

SpecId add_spec(Program& program, const TensorSpec& spec) {
  return spec == replicated_spec(spec.dims.size()) ? SpecId(kNoIndex) : program.specs.add(spec);
}

namespace {

void renumber_specs(Program& program) {
  SpecTable specs;
  Indexed<SpecId, SpecId> renumbered(program.specs.size(), kNoIndex);
  for (Value& value : program.values) {
    if (value.spec == kNoIndex) continue;
    SpecId& known = renumbered[value.spec];
    if (known == kNoIndex) known = specs.add(program.specs[value.spec]);
    value.spec = known;
  }
  program.specs = std::move(specs);
}

}  // namespace

void renumber_tables(Program& program) {
  renumber_specs(program);
  Indexed<AttrId, OpAttrs> attrs = {OpAttrs{}};
  Indexed<AttrId, AttrId> new_attrs(program.attrs.size(), kNoIndex);
  Indexed<PathId, std::string> modules = {""};
  std::unordered_map<std::string, PathId> module_ids = {{"", PathId(0)}};
  for (Segment& segment : program.segments) {
    for (ProgramOp& op : segment.ops) {
      AttrId& known = new_attrs[op.attrs];
      if (known == kNoIndex) {
        const auto& entry = program.attrs[op.attrs];
        const auto it = std::find(attrs.begin(), attrs.end(), entry);
        known = AttrId(it - attrs.begin());
        if (it == attrs.end()) attrs.push_back(entry);
      }
      op.attrs = known;
      if (op.kind == OpKind::kFree) {
        op.module = PathId(0);
        continue;
      }
      const std::string& name = program.modules[op.module];
      const auto [it, fresh] = module_ids.emplace(name, modules.next());
      if (fresh) modules.push_back(name);
      op.module = it->second;
    }
  }
  program.attrs = std::move(attrs);
  program.modules = std::move(modules);
}

RankSet ranks_at(const DeviceMesh& mesh, std::int32_t pipeline_rank) {
  RankSet ranks{uniform_coordinate(mesh, -1)};
  if (const AxisId stages = stage_axis(mesh); stages != kNoAxis) ranks.at[stages] = pipeline_rank;
  return ranks;
}

std::string class_name(const DeviceMesh& mesh, const RankSet& ranks) {
  std::string name = "class";
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (ranks.at[axis] >= 0)
      name += " " + mesh.axis_name(axis) + ":" + std::to_string(ranks.at[axis]);
  }
  return name;
}

}  // namespace trainyard
