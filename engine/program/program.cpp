#include "engine/program/program.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/program/program_words.h"
#include "engine/sharding/replica_axes.h"

namespace trainyard {

Program::Program() = default;
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;
bool operator==(const Program&, const Program&) = default;

char letter(Phase phase) { return program_words::kPhases[position(phase)]; }

std::int64_t DocumentDraws::first_sample(Microbatch mb, std::int64_t replica) const {
  std::int64_t before = replica * per_replica;
  if (sizes.size() == 1) return before + mb * sizes.front();
  for (Microbatch m = 0; m < mb; ++m) before += size_of(m);
  return before;
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
  Indexed<PathId, PathId> new_modules(program.modules.size(), kNoIndex);
  std::unordered_map<std::string_view, PathId> module_ids = {{"", PathId(0)}};
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
      PathId& module = new_modules[op.module];
      if (module == kNoIndex) {
        const std::string& name = program.modules[op.module];
        const auto [it, fresh] = module_ids.emplace(name, modules.next());
        if (fresh) modules.push_back(name);
        module = it->second;
      }
      op.module = module;
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

bool is_in(const RankSet& ranks, const DeviceMesh& mesh, const Coordinate& at) {
  for (const AxisId axis : mesh.axis_ids()) {
    if (ranks.at[axis] >= 0 && ranks.at[axis] != at[axis]) return false;
  }
  return ranks.replicas.empty() ||
         std::binary_search(ranks.replicas.begin(), ranks.replicas.end(), replica_of(mesh, at));
}

std::int32_t pipeline_rank_of(const RankSet& ranks, const DeviceMesh& mesh) {
  const AxisId stages = stage_axis(mesh);
  return stages == kNoAxis ? 0 : ranks.at[stages];
}

std::int64_t num_ranks(const RankSet& ranks, const DeviceMesh& mesh) {
  const AxisSet apart = ranks.replicas.empty() ? AxisSet{0} : set_of(replica_axes(mesh));
  std::int64_t count = std::max<std::int64_t>(1, std::ssize(ranks.replicas));
  for (const AxisId axis : mesh.axis_ids()) {
    if (ranks.at[axis] < 0 && !has(apart, axis))
      count *= mesh.size(axis, pipeline_rank_of(ranks, mesh));
  }
  return count;
}

std::string runs_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string class_name(const DeviceMesh& mesh, const RankSet& ranks) {
  std::string name = "class";
  for (const AxisId axis : mesh.axis_ids()) {
    if (ranks.at[axis] >= 0)
      name += " " + mesh.axis_name(axis) + ":" + std::to_string(ranks.at[axis]);
    else if (axis == unlike_axis(mesh) && !ranks.replicas.empty())
      name += " " + replica_axes_name(mesh) + ":" +
              runs_text({ranks.replicas.begin(), ranks.replicas.end()});
  }
  return name;
}

}  // namespace trainyard
