// Ranges of work on the threads of an op.
#include "real/exec/thread_ranges.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "tests/real/threads/op_threads.h"

namespace trainyard::thread_ranges_test {

TEST_CASE("ranges of threads cover every item once") {
  for (const int threads : {1, 2, 3, 8}) {
    set_op_threads(threads);
    for (const std::int64_t count : {0, 1, 7, 64, 1000}) {
      for (const std::int64_t least : {0, 1, 10, 5000}) {
        CAPTURE(threads, count, least);
        std::vector<int> times(static_cast<std::size_t>(count), 0);
        for_thread_ranges(count, least, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
        });
        CHECK(times == std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
  set_op_threads(1);
}

TEST_CASE("what one thread throws comes out when all have ended") {
  set_op_threads(4);
  std::vector<int> done(8, 0);
  const auto fail = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      done[static_cast<std::size_t>(i)] = 1;
      if (i == 5) throw std::runtime_error("item 5");
    }
  };
  CHECK_THROWS_WITH(for_thread_ranges(8, 1, fail), "item 5");
  CHECK(done == std::vector<int>(8, 1));  // ranges of two: the failure was the last of its own
  set_op_threads(1);
}

}  // namespace trainyard::thread_ranges_test
