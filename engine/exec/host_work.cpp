#include "engine/exec/host_work.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

Indexed<ValueId, std::int32_t> parameters_in_storage(const Program& program) {
  Indexed<ValueId, std::int32_t> count(program.values.size());
  for (const Value& value : program.values) {
    const bool is_parameter = value.memory == MemoryClass::kParameter;
    if (is_parameter && value.alias && value.alias->own_shard == kNoIndex) ++count[value.alias->in];
  }
  return count;
}

bool updates(const ProgramOp& op) { return op_info(op.kind).kernel == KernelClass::kOptimizer; }

}  // namespace

void HostWork::enter(const Segment& segment, std::int32_t pipeline_rank) {
  batch_ = software_.batch_us > 0 && segment.phase == Phase::kForward;
  tensors_ = 0;
  if (software_.tensor_update_us == 0 || segment.phase != Phase::kUpdate) return;
  for (const ProgramOp& op : segment.ops) {
    if (updates(op)) tensors_ += tensors_of(op, pipeline_rank);
  }
}

Seconds HostWork::before(const ProgramOp& op) {
  Seconds time = 0;
  if (batch_ && op.kind == OpKind::kLoad) {
    batch_ = false;
    time += batch_time(software_, log_);
  }
  if (tensors_ > 0 && updates(op))
    time += tensor_update_time(std::exchange(tensors_, 0), software_, log_);
  return time;
}

std::int64_t HostWork::tensors_of(const ProgramOp& update, std::int32_t pipeline_rank) {
  if (parameters_in_.empty()) parameters_in_ = parameters_in_storage(program_);
  std::int64_t tensors = 0;
  for (const Operand& written : update.writes) {
    const std::optional<Alias>& alias = program_.values[written.value].alias;
    const std::int64_t in_storage =
        std::max<std::int64_t>(parameters_in_[alias ? alias->in : written.value], 1);
    // A rank that has a part of the storage goes through what lies in its part.
    const std::int64_t parts =
        alias && alias->own_shard != kNoIndex
            ? group_size(program_.mesh, program_.groups[alias->own_shard].axes, pipeline_rank)
            : 1;
    tensors += (in_storage + parts - 1) / parts;
  }
  return tensors;
}

}  // namespace trainyard
