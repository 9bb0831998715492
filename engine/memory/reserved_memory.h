// What PyTorch's allocator takes from the driver for a rank's steps: its requests, replayed.
#pragma once

#include <vector>

#include "engine/base/units.h"
#include "engine/memory/memory.h"
#include "engine/program/program.h"

namespace trainyard {

/// Most bytes reserved by the rank that runs `list`, of its replicas that which owns most, from its
/// first step until a step takes no more (at most four): weights and gradients first, pools, then
/// the arena's values in issue order, the optimizer's state where the first update needs it.
/// Gathered parameters and what is reduced and scattered are of streams of their own. `capacity`:
/// what the driver has. Without FixedMemory::buffers, which are not the allocator's. At least what
/// lives.
Bytes reserved_memory(const Program& program, const RankClass& list, const FixedMemory& fixed,
                      Bytes capacity);

/// Raises `cached` of the peak with the largest total to what the allocator holds beside it.
/// `peaks` as of memory_peaks(); `capacity`: of the device.
void add_held(const Program& program, const FixedMemory& fixed, Bytes capacity,
              std::vector<MemoryPeak>& peaks);

}  // namespace trainyard
