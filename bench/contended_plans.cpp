// Random plans on random clusters against the laws of tests/support/laws.h:
//   contended_plans [--from SEED] [--count N] [--step] [--capacities] [--texts]
// Plans that break one are printed with it, and the program ends with exit 1. --step takes plans of
// at most 64 ranks.
#include <string>
#include <vector>

#include "bench/law_count.h"
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
  LawCount count;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const std::string yaml = random_study(seed);
    if (asked.step) {
      const Outcome outcome = run_study(yaml, {"fidelity=analytic"});
      if (outcome.simulation && outcome.simulation->summary.num_ranks > 64) continue;
    }
    count.add(seed, yaml, check_laws(yaml, asked));
  }
  return count.finish(range.count);
}
