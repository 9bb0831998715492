#include "engine/passes/stage_instructions.h"

namespace trainyard {

Numbered<Instructions> by_stage(const std::vector<Instruction>& all, std::int32_t num_stages) {
  Numbered<Instructions> out(num_stages);
  for (const Instruction& op : all) {
    if (op.kind != OpKind::kSend) out[op.stage].push_back(&op);
  }
  return out;
}

Instructions recomputed_of(const Instructions& all) {
  Instructions again = those_of(all, [](const Instruction* op) { return op->recomputed; });
  std::stable_sort(again.begin(), again.end(), [](const Instruction* a, const Instruction* b) {
    return a->origin < b->origin;
  });
  return again;
}

}  // namespace trainyard
