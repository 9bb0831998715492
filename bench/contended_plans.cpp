// Random plans on random clusters against the laws of tests/support/laws.h:
//   contended_plans [--from SEED] [--count N] [--step] [--capacities] [--texts]
// Plans that break one are printed with it, and the program ends with exit 1. --step takes plans of
// at most 64 ranks.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/outcome_count.h"
#include "tests/support/laws.h"
#include "tests/support/random_plan.h"

using namespace trainyard;

int main(int argc, char** argv) {
  LawsAsked asked;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--step")
      asked.step = true;
    else if (word == "--capacities")
      asked.capacities = true;
    else if (word == "--texts")
      asked.texts = true;
    else
      rest.push_back(argv[i]);
  }
  const SeedRange range = parse_range(static_cast<int>(rest.size()), rest.data(), 10'000);
  std::uint64_t timed = 0, comparisons = 0, plans_broken = 0;
  std::map<std::string, int> by_law;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const std::string yaml = random_study(seed);
    if (asked.step) {
      const Outcome outcome = run_study(yaml, {"fidelity=analytic"});
      if (outcome.simulation && outcome.simulation->summary.num_ranks > 64) continue;
    }
    const LawsHeld held = check_laws(yaml, asked);
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
