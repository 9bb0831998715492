// Counts what LibTorch has allocated on the CPU, to the byte asked for.
#pragma once

#include <cstdint>

namespace trainyard {

/// From the first call on, every allocation of a CPU tensor goes through a counter. Not to be called
/// while others allocate.
void count_cpu_allocations();

/// Bytes of live tensors that were allocated since.
std::int64_t live_cpu_bytes();

}  // namespace trainyard
