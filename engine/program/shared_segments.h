// What Programs that a Compiler made of the same segments have in common, so that what is computed
// from segments can be kept from one to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// Programs of one number differ in nothing but mesh sizes along dp, placement, number of
/// microbatches, lists of calls, slots of pools, and the extents of `sized` values.
struct SharedSegments {
  std::uint64_t number = 0;      // 0: shares with no other Program
  Indexed<ValueId, bool> sized;  // its extents depend on the number of data-parallel ranks

  bool is_sized(ValueId value) const { return sized[value]; }
  bool is_sized(const ProgramOp& op) const {
    for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      for (const Operand& operand : *operands) {
        if (is_sized(operand.value)) return true;
      }
    }
    return false;
  }
};

}  // namespace trainyard
