#include "engine/passes/turn_frees.h"

#include <map>
#include <utility>

namespace trainyard {

namespace {

std::string letters(int number) {
  const std::string last(1, static_cast<char>('a' + number % 26));
  return number < 26 ? last : letters(number / 26 - 1) + last;
}

}  // namespace

std::vector<TurnFree> turn_frees(const Indexed<TensorId, Touches>& touched,
                                 const Indexed<TensorId, ValueId>& value_of, ValueId loss) {
  std::map<StageTouches, ProgramOp> frees;
  for (const TensorId id : touched.keys()) {
    const ValueId known = value_of[id];
    if (!touched[id].handed_over() || known == kNoIndex || known == loss) continue;
    ProgramOp& free = frees[touched[id].by_stage];
    free.kind = OpKind::kFree;
    free.reads.push_back({known, 0});
  }
  std::vector<TurnFree> out;
  int number = 0;
  for (auto& [touches, op] : frees) {
    const std::int32_t stage = touches.front().first;
    number = !out.empty() && out.back().stage == stage ? number + 1 : 0;
    out.push_back({stage, letters(number), std::move(op), touches});
  }
  return out;
}

}  // namespace trainyard
