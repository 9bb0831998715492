// Counts what LibTorch has allocated on the CPU, to the byte asked for.
#pragma once

#include <cstdint>

namespace trainyard {

/// From the first call on, every allocation of a CPU tensor goes through a counter, and then to the
/// allocator that was in use. Not to be called while others allocate.
void count_cpu_allocations();

/// Bytes of live tensors that were allocated since.
std::int64_t live_cpu_bytes();

/// The most that live_cpu_bytes() has been since begin_cpu_peak().
void begin_cpu_peak();
std::int64_t peak_cpu_bytes();

/// The most that the calling thread has had allocated since it last called begin_thread_peak(),
/// over what it has now: what a kernel used beside its results. LibTorch's operators allocate on
/// the thread that calls them, so that this is right also where other ranks are threads of the same
/// process.
void begin_thread_peak();
std::int64_t thread_peak_over_now();

}  // namespace trainyard
