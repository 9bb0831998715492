#include "engine/passes/taken_parts.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

/// Storages that segments of these pipeline ranks touch.
Indexed<ValueId, bool> touched_storages(const Program& program,
                                        const std::set<std::int32_t>& ranks) {
  Indexed<ValueId, bool> out(program.values.size(), false);
  const auto look_at = [&](SegmentId id) {
    for (const ProgramOp& op : program.segments[id].ops) {
      for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
        for (const Operand& operand : *operands) out[storage_root(program, operand.value)] = true;
      }
    }
  };
  for (const RankClass& list : program.body) {
    if (!ranks.contains(pipeline_rank_of(list.ranks, program.mesh))) continue;
    for (const Call& call : list.calls) {
      look_at(call.segment);
      for (const auto& [before, inside] : call.inside) look_at(inside);
    }
  }
  return out;
}

template <typename List>
bool has_name(const List& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(), [&](const auto& it) { return it.name == name; });
}

}  // namespace

TakenParts::TakenParts(const Program& from, const std::set<std::int32_t>& ranks, Program& out)
    : from_(&from),
      out_(&out),
      values_(from.values.size(), kNoIndex),
      pools_(from.pools.size(), kNoIndex),
      attrs_(from.attrs.size(), kNoIndex),
      modules_(from.modules.size(), kNoIndex) {
  const auto touched = touched_storages(from, ranks);
  for (const ValueId id : from.values.keys()) {
    if (touched[storage_root(from, id)]) take_value(id);
  }
}

std::string TakenParts::free_name(const std::string& name, bool taken) const {
  return taken ? name + ".of" + std::to_string(from_->mesh.num_ranks()) : name;
}

void TakenParts::take_value(ValueId id) {
  Value value = from_->values[id];
  value.name = free_name(value.name, has_name(out_->values, value.name));
  value.spec = add_spec(*out_, spec_of(*from_, value));
  if (value.pool != kNoIndex) {
    PoolId& pool = pools_[value.pool];
    if (pool == kNoIndex) {
      Pool made = from_->pools[value.pool];
      made.name = free_name(made.name, has_name(out_->pools, made.name));
      pool = out_->pools.add(std::move(made));
    }
    value.pool = pool;
  }
  if (value.alias) {
    value.alias->in = values_[value.alias->in];
    value.alias->own_shard = group(value.alias->own_shard);
  }
  values_[id] = out_->values.add(std::move(value));
}

/// By its name: where the Program has fewer ranks along an axis, its groups leave that out.
GroupId TakenParts::group(GroupId of) {
  if (of == kNoIndex) return of;
  const Group& group = from_->groups[of];
  for (const GroupId known : out_->groups.keys()) {
    if (out_->groups[known].name == group.name && out_->groups[known].members == group.members)
      return known;
  }
  return out_->groups.add(group);
}

ProgramOp TakenParts::op(const ProgramOp& of) {
  ProgramOp out = of;
  for (Operands* operands : {&out.reads, &out.writes, &out.accumulates}) {
    for (Operand& operand : *operands) operand.value = values_[operand.value];
  }
  if (out.guard) out.guard->value = values_[out.guard->value];
  out.group = group(of.group);
  AttrId& attrs = attrs_[of.attrs];
  if (attrs == kNoIndex) attrs = add_attrs(*out_, from_->attrs[of.attrs]);
  out.attrs = attrs;
  PathId& module = modules_[of.module];
  if (module == kNoIndex) {
    const auto& known = out_->modules;
    const auto it = std::find(known.begin(), known.end(), from_->modules[of.module]);
    module = it != known.end() ? PathId(it - known.begin())
                               : out_->modules.add(from_->modules[of.module]);
  }
  out.module = module;
  return out;
}

}  // namespace trainyard
