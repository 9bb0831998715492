#include "bench/law_count.h"

#include <cstdio>

namespace trainyard {

void LawCount::add(std::uint64_t seed, const std::string& yaml, const LawsHeld& held) {
  timed_ += held.timed ? 1 : 0;
  comparisons_ += static_cast<std::uint64_t>(held.comparisons);
  if (held.broken.empty()) return;
  ++plans_broken_;
  for (const std::string& broken : held.broken) {
    ++by_law_[broken.substr(0, broken.find(':'))];
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), broken.c_str());
  }
  std::printf("%s\n", yaml.c_str());
  std::fflush(stdout);
}

int LawCount::finish(std::uint64_t plans) const {
  std::printf("%llu plans, %llu with a step, %llu comparisons; %llu plans broke a law\n",
              static_cast<unsigned long long>(plans), static_cast<unsigned long long>(timed_),
              static_cast<unsigned long long>(comparisons_),
              static_cast<unsigned long long>(plans_broken_));
  for (const auto& [law, count] : by_law_) std::printf("  %s: %d\n", law.c_str(), count);
  return plans_broken_ == 0 ? 0 : 1;
}

}  // namespace trainyard
