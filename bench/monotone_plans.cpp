// Random plans against the laws of tests/support/monotone_laws.h:
//   monotone_plans [--from SEED] [--count N]
// Plans that break one are printed with it, and the program ends with exit 1.
#include <cstdio>
#include <map>
#include <string>

#include "bench/outcome_count.h"
#include "tests/support/monotone_laws.h"
#include "tests/support/random_plan.h"

using namespace trainyard;

int main(int argc, char** argv) {
  const SeedRange range = parse_range(argc, argv, 2'000);
  std::uint64_t timed = 0, comparisons = 0, plans_broken = 0;
  std::map<std::string, int> by_law;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const std::string yaml = random_study(seed);
    const MonotoneHeld held = check_monotone_laws(yaml);
    timed += held.timed ? 1 : 0;
    comparisons += static_cast<std::uint64_t>(held.comparisons);
    if (held.broken.empty()) continue;
    ++plans_broken;
    for (const std::string& broken : held.broken) {
      ++by_law[broken.substr(0, broken.find(':'))];
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), broken.c_str());
    }
    std::printf("%s\n", yaml.c_str());
    std::fflush(stdout);
  }
  std::printf("%llu plans, %llu with a step, %llu comparisons; %llu plans broke a law\n",
              static_cast<unsigned long long>(range.count), static_cast<unsigned long long>(timed),
              static_cast<unsigned long long>(comparisons),
              static_cast<unsigned long long>(plans_broken));
  for (const auto& [law, count] : by_law) std::printf("  %s: %d\n", law.c_str(), count);
  return plans_broken == 0 ? 0 : 1;
}
