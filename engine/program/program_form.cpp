#include "engine/program/program_form.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/program/mesh_form.h"
#include "engine/program/owners.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

/// Ranks that can own values.
std::int64_t num_owners(const Program& program) {
  return program.groups.has(program.owners)
             ? group_size(program.mesh, program.groups[program.owners].axes)
             : 0;
}

Problem check_value(const Program& program, ValueId id) {
  const Value& value = program.values[id];
  const auto problem = [&](const std::string& text) { return "value " + value.name + ": " + text; };
  for (const Dim& dim : value.dims) {
    if (dim.expected < 0 || dim.bound < dim.expected) return problem("bad extent");
  }
  if (value.pool != kNoIndex && !program.pools.has(value.pool)) return problem("no such pool");
  if (value.pool != kNoIndex && program.pools[value.pool].space != value.space) {
    return problem("is in another space than its pool");
  }
  if (value.owner < -1 || (value.owner >= 0 && value.owner >= num_owners(program)))
    return problem("its owner is no member of the owners");
  if (!value.alias) return std::nullopt;
  if (value.alias->in == kNoIndex || value.alias->in >= id)
    return problem("its storage leads nowhere");
  const Value& in = program.values[value.alias->in];
  const auto element = static_cast<Bytes>(size_in_bytes(value.dtype));
  if (value.alias->offset < 0 ||
      value.alias->offset * element > size_in_bytes(in) - size_in_bytes(value)) {
    return problem("reaches past the end of " + in.name);
  }
  if (value.alias->own_shard != kNoIndex && !tells_members_apart(program, value.alias->own_shard))
    return problem("is a shard of no whole group");
  if (value.scope != in.scope) return problem("does not live as long as " + in.name);
  return std::nullopt;
}

/// Whether it copies between the order of a group's shards and that of the parameters in them.
bool reorders(OpKind kind) { return kind == OpKind::kCopyIn || kind == OpKind::kCopyOut; }

/// Whether it may be of the shards of a group, parameter by parameter.
bool takes_shards(OpKind kind) { return kind == OpKind::kAmax || kind == OpKind::kQuantize; }

/// On one device: a kernel.
Problem check_device_copy(const Program& program, const ProgramOp& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1 || !op.accumulates.empty())
    return "reads 1 and writes 1 value";
  const Value& from = program.values[op.reads[0].value];
  const Value& to = program.values[op.writes[0].value];
  if (from.space != Space::kDevice || to.space != Space::kDevice) return "leaves the device";
  // Gradients are cast as they are copied into what is reduced.
  const bool casts = op.kind == OpKind::kCopyIn;
  const bool fits = casts ? num_elements(from.dims) == num_elements(to.dims)
                          : from.dtype == to.dtype && size_in_bytes(from) == size_in_bytes(to);
  if (!fits) return "does not fit into " + to.name;
  if (op.stream != StreamId::kMain) return "is on another stream";
  return std::nullopt;
}

/// The stream of copies from one memory to the next; none: there are no such copies.
std::optional<StreamId> stream_between(Space from, Space to) {
  if (from == Space::kDevice && to == Space::kHost) return StreamId::kD2h;
  if (from == Space::kHost && to == Space::kDevice) return StreamId::kH2d;
  if (from == Space::kHost && to == Space::kNvme) return StreamId::kNvmeOut;
  if (from == Space::kNvme && to == Space::kHost) return StreamId::kNvmeIn;
  return std::nullopt;
}

/// From a device to its host, from there to its drives, or back, each way on its own stream.
Problem check_copy(const Program& program, const ProgramOp& op) {
  if (op.reads.size() != 1 || op.writes.size() != 1 || !op.accumulates.empty())
    return "reads 1 and writes 1 value";
  const Value& from = program.values[op.reads[0].value];
  const Value& to = program.values[op.writes[0].value];
  if (from.space == to.space) return "stays where it is";
  if (size_in_bytes(from) != size_in_bytes(to)) return "does not fit into " + to.name;
  const std::optional<StreamId> stream = stream_between(from.space, to.space);
  if (!stream) return "leaves the host out";
  if (op.stream != *stream) return "is on another stream";
  return std::nullopt;
}

/// How many operands communication takes: what it sends, what it fills.
Problem check_communication(const Program& program, const ProgramOp& op) {
  if (is_collective(op.kind) || reorders(op.kind)) {
    if (!program.groups.has(op.group)) return "has no group";
  } else if (op.group != kNoIndex) {
    if (!takes_shards(op.kind)) return "has a group";
    if (!program.groups.has(op.group)) return "has no group";
  }
  if (is_transfer(op.kind)) {
    if (!program.transfers.has(op.transfer)) return "has no peer";
    const Transfer& transfer = program.transfers[op.transfer];
    if (transfer.offset % program.mesh.size(transfer.axis) == 0) {
      return "is its own peer";
    }
  } else if (op.transfer != kNoIndex) {
    return "has a peer";
  }
  if (op.kind == OpKind::kCopy) return check_copy(program, op);
  if (op.kind == OpKind::kDeviceCopy || reorders(op.kind)) return check_device_copy(program, op);
  if (!is_communication(op.kind)) return std::nullopt;
  const std::size_t reads = op.kind == OpKind::kRecv ? 0 : 1;
  const std::size_t writes = op.kind == OpKind::kSend ? 0 : 1;
  if (op.reads.size() != reads || op.writes.size() != writes || !op.accumulates.empty()) {
    return "reads " + std::to_string(reads) + " and writes " + std::to_string(writes) + " value";
  }
  return std::nullopt;
}

Problem check_operand(const Program& program, const Segment& segment, const Operand& operand) {
  if (!program.values.has(operand.value))
    return "no value " + std::to_string(operand.value.number());
  const Value& value = program.values[operand.value];
  const bool per_microbatch = value.scope == Scope::kMicrobatch;
  // What is local to a call of two microbatches says which of them it serves.
  const bool local_of_pair = value.scope == Scope::kLocal && segment.slots > 1;
  if (operand.slot >= (per_microbatch || local_of_pair ? segment.slots : 1)) {
    return value.name + (segment.slots == 0 ? " without a microbatch" : " of no such microbatch");
  }
  return std::nullopt;
}

/// Nearly all operands are plain, and there are hundreds of thousands.
class PlainOperands {
 public:
  PlainOperands(const Program& program, const Segment& segment)
      : values_(program.values),
        of_microbatch_(segment.slots > 0) {}

  bool all(const ProgramOp& op) const {
    return all(op.reads) && all(op.writes) && all(op.accumulates) && !op.guard;
  }

 private:
  bool all(const Operands& operands) const {
    return std::all_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.slot == 0 && values_.has(operand.value) &&
             (of_microbatch_ || values_[operand.value].scope != Scope::kMicrobatch);
    });
  }

  const Indexed<ValueId, Value>& values_;
  bool of_microbatch_;
};

Problem check_operands(const Program& program, const Segment& segment, const ProgramOp& op) {
  for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
    for (const Operand& operand : *operands) {
      if (auto problem = check_operand(program, segment, operand)) return problem;
    }
  }
  return op.guard ? check_operand(program, segment, *op.guard) : std::nullopt;
}

/// `owned`: some value of the Program has an owner.
Problem check_op(const Program& program, const Segment& segment, std::size_t k,
                 const PlainOperands& plain, bool owned) {
  const ProgramOp& op = segment.ops[k];
  if (!plain.all(op)) {
    if (auto problem = check_operands(program, segment, op)) return problem;
  }
  if (!program.attrs.has(op.attrs)) return "no attributes " + std::to_string(op.attrs.number());
  if (!program.modules.has(op.module)) return "no module " + std::to_string(op.module.number());
  if (std::any_of(op.after.begin(), op.after.end(),
                  [&](std::uint32_t before) { return before >= k; })) {
    return "waits for a later op";
  }
  if (op.kind == OpKind::kFree && op.stream != StreamId::kMain) return "is not on the main stream";
  if (auto wrong = check_communication(program, op)) return wrong;
  if (owned || op.kind == OpKind::kReduce) {
    if (const char* wrong = find_owner_problem(program, op)) return wrong;
  }
  return std::nullopt;
}

Problem check_call(const Program& program, const RankClass& list, std::size_t i) {
  const Call& call = list.calls[i];
  const auto problem = [&](const std::string& text) {
    return class_name(program.mesh, list.ranks) + " call " + std::to_string(i) + ": " + text;
  };
  if (!program.segments.has(call.segment))
    return problem("no segment " + std::to_string(call.segment.number()));
  const Segment& segment = program.segments[call.segment];
  for (std::size_t slot = 0; slot < call.mb.size(); ++slot) {
    const Microbatch mb = call.mb[slot];
    const bool fits = slot < segment.slots ? mb >= 0 && mb < program.num_microbatches : mb == -1;
    if (!fits) return problem(segment.name + " called with microbatch " + std::to_string(mb));
  }
  if (segment.slots > 1 && call.mb[0] == call.mb[1]) {
    return problem(segment.name + " called with microbatch " + std::to_string(call.mb[0]) +
                   " twice");
  }
  for (const CallRef& before : call.after) {
    if (before.call >= i) return problem(segment.name + " waits for a call after it");
  }
  std::uint32_t earliest = 0;
  for (const auto& [at, inner] : call.inside) {
    if (!program.segments.has(inner) || program.segments[inner].slots != 0) {
      return problem(segment.name + ": no segment to call inside");
    }
    if (at < earliest) return problem(segment.name + ": calls inside that are not in order");
    earliest = at;
    if (at > segment.ops.size()) return problem(segment.name + ": a call inside at no op");
  }
  return std::nullopt;
}

Problem check_values(const Program& program) {
  for (const ValueId id : program.values.keys()) {
    if (auto problem = check_value(program, id)) return problem;
  }
  return std::nullopt;
}

Problem check_ops(const Program& program) {
  const bool owned = has_owners(program);
  for (const Segment& segment : program.segments) {
    const PlainOperands plain(program, segment);
    for (std::size_t k = 0; k < segment.ops.size(); ++k) {
      const auto problem = check_op(program, segment, k, plain, owned);
      if (!problem) continue;
      const ProgramOp& op = segment.ops[k];
      return "segment " + segment.name + " op " + std::to_string(k) + ": " +
             op_name(op.kind, op.part) + ": " + *problem;
    }
  }
  return std::nullopt;
}

Problem check_calls(const Program& program) {
  for (const RankClass& list : program.body) {
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      if (auto problem = check_call(program, list, i)) return problem;
    }
  }
  return std::nullopt;
}

/// Within a segment, for the order of segments is the lists' matter.
class AssignmentCheck {
 public:
  explicit AssignmentCheck(const Program& program) : program_(program) {
    for (auto& of_slot : written_by_) of_slot.assign(program.values.size(), kNoIndex);
    freed_by_ = written_by_;
  }

  Problem run() {
    for (const SegmentId id : program_.segments.keys()) {
      for (const ProgramOp& op : program_.segments[id].ops) {
        const Problem problem =
            op.kind == OpKind::kFree ? check_free(op, id) : check_writes(op, id);
        if (problem) return "segment " + program_.segments[id].name + ": " + *problem;
      }
    }
    return std::nullopt;
  }

 private:
  using BySlot = std::array<Indexed<ValueId, SegmentId>, 2>;  // [slot]: the last that did

  static bool first_time(BySlot& by, const Operand& operand, SegmentId segment) {
    return std::exchange(by[operand.slot][operand.value], segment) != segment;
  }

  Problem check_writes(const ProgramOp& op, SegmentId segment) {
    for (const Operand& written : op.writes) {
      const Value& value = program_.values[written.value];
      if (!first_time(written_by_, written, segment) && value.scope != Scope::kPersistent)
        return op_name(op.kind, op.part) + " writes " + value.name + " a second time";
    }
    return std::nullopt;
  }

  Problem check_free(const ProgramOp& op, SegmentId segment) {
    for (const Operand& freed : op.reads) {
      const Value& value = program_.values[freed.value];
      if (value.alias) return "frees " + value.name + ", a view";
      if (value.scope == Scope::kPersistent) return "frees " + value.name + ", which is persistent";
      if (!first_time(freed_by_, freed, segment)) return "frees " + value.name + " twice";
    }
    return std::nullopt;
  }

  const Program& program_;
  BySlot written_by_, freed_by_;
};

}  // namespace

bool takes_group(OpKind kind) {
  return is_collective(kind) || reorders(kind) || takes_shards(kind);
}

std::optional<std::string> find_malformed(const Program& program) {
  for (const auto check : {find_malformed_mesh, check_values, check_ops, check_calls}) {
    if (auto problem = check(program)) return problem;
  }
  return std::nullopt;
}

std::optional<std::string> find_malformed_segments(const Program& program) {
  for (const auto check : {check_values, check_ops}) {
    if (auto problem = check(program)) return problem;
  }
  return AssignmentCheck(program).run();
}

std::optional<std::string> find_malformed_but_ops(const Program& program) {
  for (const auto check : {find_malformed_mesh, check_values, check_calls}) {
    if (auto problem = check(program)) return problem;
  }
  return std::nullopt;
}

}  // namespace trainyard
