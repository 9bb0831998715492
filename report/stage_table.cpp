#include "report/stage_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/readable.h"
#include "report/stage_bytes.h"
#include "report/stage_segments.h"

namespace trainyard {

namespace {

/// "layers 3 to 5", "layers 3 (from decoder.layers.3.mlp) to 5 (in part)".
std::string layers_text(const PassLog& log, std::size_t stage) {
  const std::string& at = log.begins_at[stage];
  const std::int64_t first = log.first_layer[stage], last = log.last_layer[stage];
  if (last < first) return at.empty() ? "no layer" : "from " + at;
  const bool begun = stage > 0 && log.last_layer[stage - 1] == first;
  const bool in_part = stage + 1 < log.last_layer.size() && log.first_layer[stage + 1] == last;
  return "layers " + std::to_string(first) + (begun ? " (from " + at + ")" : "") + " to " +
         std::to_string(last) + (in_part ? " (in part)" : "");
}

std::string what_of(const PassLog& log, const Study& study, std::size_t stage) {
  if (study.partition.method == "smp")
    return log.begins_at[stage].empty() ? "passes on what it is given" : log.begins_at[stage];
  std::string text = stage == 0 ? "embedding, " : "";
  text += layers_text(log, stage);
  if (stage + 1 == log.begins_at.size()) text += ", head and loss";
  return text;
}

/// What lies in the storage of `value`, such as a part of it that one of several senders has.
bool reads(const Program& program, const ProgramOp& op, ValueId value) {
  return std::any_of(op.reads.begin(), op.reads.end(), [&](const Operand& operand) {
    return storage_root(program, operand.value) == value;
  });
}

/// Whether `forward` reads of the storage `value`, or of a copy of it that lands on the device.
bool is_read_forward(const Program& program, SegmentId forward, ValueId value) {
  const std::int32_t stage = program.segments[forward].stage;
  for (const SegmentId id : program.segments.keys()) {
    const Segment& segment = program.segments[id];
    if (segment.stage != stage) continue;
    for (const ProgramOp& op : segment.ops) {
      if (!reads(program, op, value)) continue;
      if (id == forward) return true;
      const bool copies = op.kind == OpKind::kCopy || op.kind == OpKind::kDeviceCopy;
      if (copies && is_read_forward(program, forward, storage_root(program, op.writes[0].value)))
        return true;
    }
  }
  return false;
}

void add_received(const Program& program, SegmentId forward, int pipeline, StageRow& row) {
  std::set<ValueId> seen;
  for (const Segment& segment : program.segments) {
    if (segment.stage != program.segments[forward].stage) continue;
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kRecv) continue;
      const ValueId id = storage_root(program, op.writes[0].value);
      if (!seen.insert(id).second || !is_read_forward(program, forward, id)) continue;
      const std::int32_t peer = row.pipeline_rank + program.transfers[op.transfer].offset;
      const Value& value = program.values[id];
      row.receives.push_back(
          {value.name, size_in_bytes(value), (peer % pipeline + pipeline) % pipeline});
    }
  }
}

}  // namespace

std::vector<StageRow> stage_rows(const Program& program, const Costs& costs, const PassLog& log,
                                 const Study& study) {
  const StageSegments segments(program, costs);
  std::vector<StageRow> rows;
  for (std::size_t stage = 0; stage < log.begins_at.size(); ++stage) {
    const auto number = static_cast<std::int32_t>(stage);
    StageRow& row = rows.emplace_back();
    row.what = what_of(log, study, stage);
    row.pipeline_rank = log.schedule.rank_of(number);
    row.replicas = study.parallel.replicas_at(row.pipeline_rank);
    row.forward = segments.time(segments.forward(number));
    for (const SegmentId id : segments.backward(number)) row.backward += segments.time(id);
    const SegmentId forward = segments.forward(number);
    if (forward == kNoIndex) continue;
    add_received(program, forward, study.parallel.pipeline, row);
    StageBytes bytes(program, segments, number);
    for (const ProgramOp& op : program.segments[forward].ops) {
      row.parameters += bytes.parameters(op);
      row.activations += bytes.activations(op);
    }
  }
  return rows;
}

std::string stage_text(const StageRow& row) {
  std::string text =
      "; forward " + duration_text(row.forward) + ", backward " + duration_text(row.backward);
  if (row.receives.empty()) return text;
  Bytes bytes = 0;
  for (const StageRow::Crossing& crossing : row.receives) bytes += crossing.bytes;
  const std::string what = row.receives.size() == 1
                               ? row.receives.front().value
                               : std::to_string(row.receives.size()) + " tensors,";
  text += "; receives " + what + " " + bytes_text(bytes);
  return text;
}

nlohmann::ordered_json stages_json(const std::vector<StageRow>& rows) {
  auto out = nlohmann::ordered_json::array();
  for (const StageRow& row : rows) {
    auto& stage = out.emplace_back();
    stage = {{"what", row.what},
             {"pipeline_rank", row.pipeline_rank},
             {"replicas", row.replicas},
             {"forward_s", row.forward},
             {"backward_s", row.backward},
             {"parameters_bytes", row.parameters},
             {"activations_bytes", row.activations}};
    stage["receives"] = nlohmann::ordered_json::array();
    for (const StageRow::Crossing& crossing : row.receives) {
      stage["receives"].push_back(
          {{"value", crossing.value}, {"bytes", crossing.bytes}, {"from", crossing.from}});
    }
  }
  return out;
}

}  // namespace trainyard
