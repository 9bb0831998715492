#include "engine/program/pool_uses.h"

namespace trainyard {

ValueId slot_taken(const Program& program, const std::vector<ProgramOp>& ops, std::size_t k) {
  const ProgramOp& op = ops[k];
  if (op.kind == OpKind::kFree || op.kind == OpKind::kJoin) return kNoIndex;
  for (const Operand& written : op.writes) {
    const Value& value = program.values[written.value];
    if (value.pool == kNoIndex) continue;
    if (!value.alias) return written.value;
    if (op.kind != OpKind::kRecv) continue;
    const ValueId root = storage_root(program, written.value);
    bool taken = false;
    for (std::size_t before = 0; before < k; ++before) {
      taken = taken || (ops[before].kind == OpKind::kRecv &&
                        storage_root(program, ops[before].writes[0].value) == root);
    }
    if (!taken) return root;
  }
  return kNoIndex;
}

}  // namespace trainyard
