#include "engine/program/owners.h"

#include <algorithm>

#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

std::int32_t owner_of_first(const Program& program, const Operands& operands) {
  for (const Operand& operand : operands) {
    const std::int32_t owner = program.values[operand.value].owner;
    if (owner >= 0) return owner;
  }
  return -1;
}

}  // namespace

std::int32_t owner_of(const Program& program, const ProgramOp& op) {
  if (op.kind == OpKind::kReduce) return owner_of_first(program, op.writes);
  if (op.kind == OpKind::kBroadcast) return owner_of_first(program, op.reads);
  if (moves_data(op.kind) || op.kind == OpKind::kFree) return -1;
  for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
    if (const std::int32_t owner = owner_of_first(program, *operands); owner >= 0) return owner;
  }
  return -1;
}

bool passes_by(const Program& program, const ProgramOp& op, std::int64_t rank) {
  const std::int32_t owner = moves_data(op.kind) ? -1 : owner_of(program, op);
  if (owner < 0) return false;
  return place_in_group(program, program.groups[program.owners].axes, rank) != owner;
}

bool has_owners(const Program& program) {
  return program.owners != kNoIndex &&
         std::any_of(program.values.begin(), program.values.end(),
                     [](const Value& value) { return value.owner >= 0; });
}

const char* find_owner_problem(const Program& program, const ProgramOp& op) {
  const std::int32_t owner = owner_of(program, op);
  if (op.kind == OpKind::kReduce || (op.kind == OpKind::kBroadcast && owner >= 0)) {
    return op.group == program.owners && owner >= 0 ? nullptr : "has no root among the owners";
  }
  if (owner < 0) return nullptr;
  const auto value = [&](const Operand& operand) -> const Value& {
    return program.values[operand.value];
  };
  for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
    for (const Operand& operand : *operands) {
      if (value(operand).owner >= 0 && value(operand).owner != owner)
        return "touches values of two owners";
    }
  }
  for (const Operand& operand : op.writes) {
    if (value(operand).owner < 0) return "writes for all what one rank has";
  }
  return nullptr;
}

}  // namespace trainyard
