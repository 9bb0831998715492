// The bytes alive op by op, where memory.h has the peaks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/memory/memory.h"

namespace trainyard {

/// What is alive once an op has written or freed, beside what its call found.
struct MemoryMove {
  std::uint32_t op = 0;  // of the segment
  MemoryParts bytes{};
};

/// One run of a segment. An op has two moves where it needs room for itself alone.
struct CallMoves {
  MemoryParts found{};  // alive as it begins; of an update with its copies (FixedMemory::step_copy)
  std::span<const MemoryMove> moves;  // in issue order, of the ops that change something
};

/// As follow_memory(), with the moves of each step: the largest of them is its `at_peak`.
void follow_memory_moves(
    const Program& program, const FixedMemory& fixed,
    const std::function<void(std::size_t list, const MemoryStep&, const CallMoves&)>& visit);

}  // namespace trainyard
