#include "engine/exec/op_work.h"

#include <algorithm>
#include <cmath>

#include "engine/program/own_extents.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

OpWork::OpWork(const Program& program) : program_(program), pairs_(program) {
  shapes_.reserve(program.values.size());
  for (const Value& value : program.values) {
    Shape& shape = shapes_.emplace_back();
    for (const Dim& dim : value.dims) shape.push_back(dim.expected);
  }
}

KernelWork OpWork::operator()(const ProgramOp& op) {
  if (op.kind == OpKind::kFree) return {};
  if (moves_data(op.kind)) {
    KernelWork work;
    work.bytes = message_bytes(program_, op);
    return work;
  }
  KernelWork work = of_kernel(op);
  const OpAttrs& attrs = program_.attrs[op.attrs];
  if (binds_work(op.kind, attrs)) work.flop = attention_flop(op.part, attrs, pairs_.mean(op));
  return work;
}

KernelWork OpWork::with_pairs(const ProgramOp& op, std::int64_t pairs) {
  KernelWork work = of_kernel(op);
  work.flop = attention_flop(op.part, program_.attrs[op.attrs], static_cast<double>(pairs));
  return work;
}

KernelWork OpWork::of_kernel(const ProgramOp& op) {
  operands(op.reads, reads_);
  operands(op.writes, writes_);
  operands(op.accumulates, accumulates_);
  return kernel_work(op.kind, op.part, program_.attrs[op.attrs], reads_, writes_, accumulates_);
}

void OpWork::operands(const Operands& list, std::vector<OperandShape>& out) const {
  out.clear();
  for (const Operand& operand : list) {
    const auto v = operand.value;
    out.push_back({&shapes_[v], program_.values[v].dtype});
  }
}

namespace {

/// What pieces that all members had alike would be, of which each received as much as the busiest
/// does of the uneven ones; 0: pieces are alike.
Bytes uneven_bytes(const Program& program, const ProgramOp& op) {
  // Along an axis that pipeline ranks have unlike many ranks of, pieces are alike.
  const AxisId unlike = unlike_axis(program.mesh);
  const auto uneven = [&](const Operands& operands) {
    const SpecId spec = program.values[operands[0].value].spec;
    return spec != kNoIndex && is_uneven(program.specs[spec], program.mesh) &&
           (unlike == kNoAxis || !dim_of(program.specs[spec], unlike));
  };
  const bool moves = op.kind == OpKind::kAllGather || op.kind == OpKind::kReduceScatter ||
                     op.kind == OpKind::kAllToAll;
  if (!moves || !(uneven(op.reads) || uneven(op.writes))) return 0;
  const auto members =
      members_at(program, program.groups[op.group], uniform_coordinate(program.mesh, 0));
  double most = 0;
  for (const Coordinate& member : members)
    most = std::max(most, received_bytes(program, op, member));
  const auto ranks = static_cast<double>(members.size());
  return ranks < 2 ? 0 : static_cast<Bytes>(std::llround(most * ranks / (ranks - 1)));
}

}  // namespace

Bytes message_bytes(const Program& program, const ProgramOp& op) {
  if (const Bytes uneven = uneven_bytes(program, op); uneven > 0) return uneven;
  const auto size = [&](const Operands& operands) {
    return size_in_bytes(program.values[operands[0].value]);
  };
  switch (op.kind) {
    case OpKind::kAllGather:
    case OpKind::kRecv: return size(op.writes);
    default: return size(op.reads);
  }
}

}  // namespace trainyard
