#include "real/exec/thread_ranges.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "engine/base/indexed.h"
#include "real/torch.h"

namespace trainyard {

void for_thread_ranges(std::int64_t count, std::int64_t least, std::int64_t threads,
                       const RangeWork& work) {
  const std::int64_t most = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, least));
  const std::int64_t parts = std::min(threads, most);
  if (parts == 1) return work(0, count);
  Numbered<std::exception_ptr> failures(parts);
  const auto run = [&](std::int64_t part) {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
  run(0);
  others.clear();  // joins them
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void for_thread_ranges(std::int64_t count, std::int64_t least, const RangeWork& work) {
  for_thread_ranges(count, least, at::get_num_threads(), work);
}

}  // namespace trainyard
