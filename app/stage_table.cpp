#include "app/stage_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/readable.h"

namespace trainyard {

namespace {

Seconds kernel_time(const std::vector<OpCost>& ops) {
  Seconds sum = 0;
  for (const OpCost& op : ops) sum += op.kernel;
  return sum;
}

bool reads(const ProgramOp& op, ValueId value) {
  return std::any_of(op.reads.begin(), op.reads.end(),
                     [&](const Operand& operand) { return operand.value == value; });
}

/// What a forward of the stage reads of `value`, or of a copy of it that lands on the device.
bool is_read_forward(const Program& program, std::int64_t stage, ValueId value) {
  for (const Segment& segment : program.segments) {
    if (segment.stage != stage) continue;
    for (const ProgramOp& op : segment.ops) {
      if (!reads(op, value)) continue;
      if (segment.phase == Phase::kForward) return true;
      const bool copies = op.kind == OpKind::kCopy || op.kind == OpKind::kDeviceCopy;
      if (copies && is_read_forward(program, stage, op.writes[0].value)) return true;
    }
  }
  return false;
}

std::vector<ValueId> received(const Program& program, std::int64_t stage) {
  std::vector<ValueId> out;
  for (const Segment& segment : program.segments) {
    if (segment.stage != stage) continue;
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kRecv) continue;
      const ValueId value = op.writes[0].value;
      if (std::find(out.begin(), out.end(), value) == out.end() &&
          is_read_forward(program, stage, value))
        out.push_back(value);
    }
  }
  return out;
}

}  // namespace

std::vector<StageRow> stage_rows(const Program& program, const Costs& costs, std::int64_t stages) {
  struct Parts {
    Seconds forward = 0, whole = 0, input = 0, weight = 0, recompute = 0;
  };
  Numbered<Parts> parts(stages, Parts{});
  const OpCosts& ops = costs.ops.rbegin()->second;  // of the fastest
  const auto see = [](Seconds& most, Seconds time) { most = std::max(most, time); };
  for (const SegmentId id : program.segments.keys()) {
    const Segment& segment = program.segments[id];
    if (segment.slots > 1) continue;  // a pair, whose halves have segments of their own, too
    Parts& of = parts[segment.stage];
    const Seconds time = kernel_time(ops[id]);
    switch (segment.phase) {
      case Phase::kForward: see(of.forward, time); break;
      case Phase::kBackward: see(of.whole, time); break;
      case Phase::kBackwardInput: see(of.input, time); break;
      case Phase::kBackwardWeight: see(of.weight, time); break;
      case Phase::kRecompute: see(of.recompute, time); break;
      default: break;
    }
  }
  std::vector<StageRow> rows;
  for (const std::int64_t s : parts.keys()) {
    const Parts& of = parts[s];
    rows.push_back({of.forward, std::max(of.whole, of.input + of.weight) + of.recompute,
                    received(program, s)});
  }
  return rows;
}

std::string stage_text(const Program& program, const StageRow& row) {
  std::string text =
      "; forward " + duration_text(row.forward) + ", backward " + duration_text(row.backward);
  if (row.receives.empty()) return text;
  Bytes bytes = 0;
  for (const ValueId id : row.receives) bytes += size_in_bytes(program.values[id]);
  const std::string what = row.receives.size() == 1
                               ? program.values[row.receives.front()].name
                               : std::to_string(row.receives.size()) + " tensors,";
  text += "; receives " + what + " " + bytes_text(bytes);
  return text;
}

nlohmann::ordered_json stages_json(const Program& program, const std::vector<StageRow>& rows) {
  auto out = nlohmann::ordered_json::array();
  for (const StageRow& row : rows) {
    auto& stage = out.emplace_back();
    stage["forward_s"] = row.forward;
    stage["backward_s"] = row.backward;
    stage["receives"] = nlohmann::ordered_json::array();
    for (const ValueId id : row.receives) {
      const Value& value = program.values[id];
      stage["receives"].push_back({{"value", value.name}, {"bytes", size_in_bytes(value)}});
    }
  }
  return out;
}

}  // namespace trainyard
