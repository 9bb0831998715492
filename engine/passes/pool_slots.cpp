#include "engine/passes/pool_slots.h"

#include <algorithm>
#include <vector>

#include "engine/program/pool_uses.h"

namespace trainyard {

namespace {

using OfSegment = Indexed<SegmentId, std::vector<PoolId>>;

/// Pools whose slots a segment takes, and gives back.
void find_changes(const Program& program, OfSegment& takes, OfSegment& gives) {
  const auto pool_of = [&](const Operand& operand) { return program.values[operand.value].pool; };
  takes.resize(program.segments.size());
  gives.resize(program.segments.size());
  for (const SegmentId s : program.segments.keys()) {
    const auto& ops = program.segments[s].ops;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const ProgramOp& op = ops[k];
      if (const ValueId filled = slot_taken(program, ops, k); filled != kNoIndex)
        takes[s].push_back(program.values[filled].pool);
      if (op.kind != OpKind::kFree) continue;
      for (const Operand& read : op.reads) {
        if (pool_of(read) != kNoIndex) gives[s].push_back(pool_of(read));
      }
    }
  }
}

}  // namespace

std::map<PoolId, std::int64_t> buffer_slots(const Program& program) {
  std::map<PoolId, Bytes> largest;
  for (const Value& value : program.values) {
    if (value.pool == kNoIndex || program.pools[value.pool].buffer == 0) continue;
    Bytes& bytes = largest[value.pool];
    bytes = std::max(bytes, size_in_bytes(value));
  }
  std::map<PoolId, std::int64_t> slots;
  for (const auto& [pool, bytes] : largest) slots[pool] = program.pools[pool].buffer / bytes;
  return slots;
}

void count_slots(Program& program) {
  OfSegment takes, gives;
  find_changes(program, takes, gives);
  for (Pool& pool : program.pools) pool.slots = 0;
  Indexed<PoolId, int> alive(program.pools.size(), 0), taken(program.pools.size(), 0);
  for (const RankClass& list : program.body) {
    for (const Call& call : list.calls) {
      for (const PoolId pool : takes[call.segment]) {
        int& slots = program.pools[pool].slots;
        slots = std::max(slots, ++alive[pool]);
        ++taken[pool];
      }
      for (const PoolId pool : gives[call.segment]) --alive[pool];
    }
  }
  for (const auto& [pool, slots] : buffer_slots(program)) {
    const std::int64_t most = taken[pool];
    program.pools[pool].slots = static_cast<int>(std::min(slots, most));
  }
}

}  // namespace trainyard
