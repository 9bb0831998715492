// Memory of CPU tensors, kept for the next tensor of its size.
//
// A training step asks for the same sizes as the step before. The C library gives large blocks back
// to the system, which clears every page again when it is touched next; smaller ones leave holes
// between what lives on. Here a block that is freed waits for the next request of its size, and
// goes back to the system when keeping it would take the process noticeably beyond what its tensors
// need at most.
#pragma once

#include <cstdint>

namespace trainyard {

/// From the first call on, CPU tensors of 64 KiB and more live in such blocks. Not to be called
/// while others allocate.
void retain_cpu_memory();

struct RetainedMemory {
  std::int64_t live = 0;    // blocks of tensors
  std::int64_t mapped = 0;  // those and the kept ones
  std::int64_t live_peak = 0;
  std::int64_t mapped_peak = 0;  // at most a sixth more than live_peak
};
RetainedMemory retained_memory();

}  // namespace trainyard
