#include "engine/passes/pool_slots.h"

#include <algorithm>
#include <vector>

#include "engine/program/pool_uses.h"

namespace trainyard {

namespace {

struct Change {
  PoolId pool;
  bool takes;  // else it gives back
  bool early;  // before whatever its segment gives back
};
using OfSegment = Indexed<SegmentId, std::vector<Change>>;

/// Pools whose slots a segment takes, and gives back: as its ops do once per step, of microbatches
/// first all that it takes. What drives are read for comes as the ops do, none before its turn.
OfSegment find_changes(const Program& program) {
  const auto pool_of = [&](const Operand& operand) { return program.values[operand.value].pool; };
  const auto takes_first = [](const Change& change) { return change.takes && change.early; };
  OfSegment out(program.segments.size(), {});
  for (const SegmentId s : program.segments.keys()) {
    const auto& ops = program.segments[s].ops;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const ProgramOp& op = ops[k];
      if (const ValueId filled = slot_taken(program, ops, k); filled != kNoIndex)
        out[s].push_back({program.values[filled].pool, true, op.stream != StreamId::kNvmeIn});
      if (op.kind != OpKind::kFree) continue;
      for (const Operand& read : op.reads) {
        if (pool_of(read) != kNoIndex) out[s].push_back({pool_of(read), false, false});
      }
    }
    if (program.segments[s].slots > 0)
      std::stable_partition(out[s].begin(), out[s].end(), takes_first);
  }
  return out;
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
  if (program.pools.empty()) return;
  const OfSegment changes = find_changes(program);
  for (Pool& pool : program.pools) pool.slots = 0;
  Indexed<PoolId, int> alive(program.pools.size(), 0), taken(program.pools.size(), 0);
  for (const RankClass& list : program.body) {
    for (const Call& call : list.calls) {
      for (const auto& [pool, takes, early] : changes[call.segment]) {
        alive[pool] += takes ? 1 : -1;
        if (!takes) continue;
        int& slots = program.pools[pool].slots;
        slots = std::max(slots, alive[pool]);
        ++taken[pool];
      }
    }
  }
  for (const auto& [pool, slots] : buffer_slots(program)) {
    const std::int64_t most = taken[pool];
    program.pools[pool].slots = static_cast<int>(std::min(slots, most));
  }
}

}  // namespace trainyard
