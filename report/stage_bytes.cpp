#include "report/stage_bytes.h"

namespace trainyard {

StageBytes::StageBytes(const Program& program, const StageSegments& segments, std::int32_t stage)
    : program_(program) {
  for (const SegmentId id : segments.backward(stage)) {
    for (const ProgramOp& op : program.segments[id].ops) {
      if (op.kind == OpKind::kFree) continue;
      for (const Operand& read : op.reads) read_back_.insert(storage_root(program, read.value));
    }
  }
}

Bytes StageBytes::parameters(const ProgramOp& op) {
  Bytes sum = 0;
  for (const Operand& read : op.reads) {
    const Value& value = program_.values[read.value];
    if (value.memory != MemoryClass::kParameter || !counted_.insert(read.value).second) continue;
    sum += size_in_bytes(value);
  }
  return sum;
}

Bytes StageBytes::activations(const ProgramOp& op) {
  Bytes sum = 0;
  for (const Operand& written : op.writes) {
    const ValueId root = storage_root(program_, written.value);
    const Value& value = program_.values[root];
    if (value.memory != MemoryClass::kActivation || !read_back_.contains(root)) continue;
    if (counted_.insert(root).second) sum += size_in_bytes(value);
  }
  return sum;
}

}  // namespace trainyard
