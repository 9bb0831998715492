// Counts what LibTorch has allocated on the CPU, to the byte asked for.
#pragma once

#include <cstdint>

namespace trainyard {

/// From the first call on, every allocation of a CPU tensor goes through a counter. Not to be called
/// while others allocate.
void count_cpu_allocations();

/// Bytes of live tensors that were allocated since; the largest that this was since the last reset.
std::int64_t live_cpu_bytes();
std::int64_t peak_cpu_bytes();
void reset_cpu_peak();

}  // namespace trainyard
