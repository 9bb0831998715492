#include "real/train/step_recorder.h"

#include <catch2/catch.hpp>
#include <string>

namespace trainyard::step_recorder_test {

namespace {

/// "3 4 5": the steps of a run from step `first` + 1 to step `last` that are recorded.
std::string recorded(std::int64_t first, std::int64_t last, std::size_t instructions) {
  const StepRecorder recorder(first, last, instructions);
  std::string out;
  for (std::int64_t step = first + 1; step <= last; ++step) {
    if (recorder.wants(step)) out += (out.empty() ? "" : " ") + std::to_string(step);
  }
  return out;
}

}  // namespace

TEST_CASE("the last steps of a run are recorded, none of its first two where there are others") {
  CHECK(recorded(0, 5, 100) == "3 4 5");
  CHECK(recorded(0, 3, 100) == "3");
  CHECK(recorded(0, 2, 100) == "2");
  CHECK(recorded(0, 1, 100) == "1");
  CHECK(recorded(10, 14, 100) == "13 14");  // the first two of a run that was resumed
  CHECK(recorded(0, 18, 100) == "3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18");
  CHECK(recorded(0, 20, 100) == "5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
  // 2^19 rows hold two steps of 2^18 instructions; of more than that a step is recorded all the
  // same.
  CHECK(recorded(0, 20, 1U << 18U) == "19 20");
  CHECK(recorded(0, 20, 1U << 20U) == "20");
}

}  // namespace trainyard::step_recorder_test
