// Counts how many studies ended in what, keeps the slowest, and says so while they run.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "tests/support/study_outcome.h"

namespace trainyard {

class OutcomeCount {
 public:
  /// Before each study: if the process dies, the last line on stderr names it.
  void begin(std::uint64_t seed, const std::string& yaml);
  /// After it. False, with the study printed, when its result is implausible.
  bool end(const Outcome& outcome);

  void print_progress(std::uint64_t total) const;
  void print_table() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Clock::time_point study_start_;
  std::uint64_t seed_ = 0;
  std::string yaml_;
  std::array<std::uint64_t, kNumOutcomes> count_{};
  std::uint64_t implausible_ = 0;
  double slowest_s_ = 0;
  std::uint64_t slowest_seed_ = 0;
  std::uint64_t largest_seed_ = 0;
  long peak_kib_ = 0;
};

/// "--from N --count N" -> first seed and number of studies. Ends the program with exit 2 at other
/// words.
struct SeedRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
SeedRange parse_range(int argc, char** argv, std::uint64_t default_count);

}  // namespace trainyard
