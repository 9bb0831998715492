// Random plans against the laws of tests/support/monotone_laws.h:
//   monotone_plans [--from SEED] [--count N]
// Plans that break one are printed with it, and the program ends with exit 1.
#include <string>

#include "bench/law_count.h"
#include "bench/outcome_count.h"
#include "tests/support/monotone_laws.h"
#include "tests/support/random_plan.h"

using namespace trainyard;

int main(int argc, char** argv) {
  const SeedRange range = parse_range(argc, argv, 2'000);
  LawCount count;
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const std::string yaml = random_study(seed);
    count.add(seed, yaml, check_monotone_laws(yaml));
  }
  return count.finish(range.count);
}
