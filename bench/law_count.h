// Counts the laws that plans keep, and prints the plans that break one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/laws_held.h"

namespace trainyard {

class LawCount {
 public:
  void add(std::uint64_t seed, const std::string& yaml, const LawsHeld& held);
  /// Prints the counts; the program's exit status, 1 where a plan broke a law.
  int finish(std::uint64_t plans) const;

 private:
  std::uint64_t timed_ = 0, comparisons_ = 0, plans_broken_ = 0;
  std::map<std::string, int> by_law_;
};

}  // namespace trainyard
