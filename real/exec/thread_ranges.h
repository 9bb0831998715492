// Work of the host that is divided among the threads that an op of the rank has.
#pragma once

#include <cstdint>
#include <functional>

namespace trainyard {

using RangeWork = std::function<void(std::int64_t begin, std::int64_t end)>;

/// Calls work(begin, end) for ranges that together are [0, count), side by side in at most
/// `threads` threads and with at least `least` items each, and returns when all have ended. Throws
/// what one of them throws. (at::parallel_for is serial where OpenMP was not compiled in.)
void for_thread_ranges(std::int64_t count, std::int64_t least, std::int64_t threads,
                       const RangeWork& work);

/// In at most at::get_num_threads() threads.
void for_thread_ranges(std::int64_t count, std::int64_t least, const RangeWork& work);

}  // namespace trainyard
