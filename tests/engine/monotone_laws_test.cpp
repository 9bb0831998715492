// The laws of tests/support/monotone_laws.h on random plans; bench/monotone_plans draws thousands.
#include "tests/support/monotone_laws.h"

#include <catch2/catch.hpp>

#include "tests/support/random_plan.h"

namespace trainyard::monotone_laws_test {

TEST_CASE("what is faster, hidden or split finer never makes a token of a random plan slower") {
  constexpr std::uint64_t kFirstSeed = 20'261'126'000;
  int timed = 0, comparisons = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 60; ++seed) {
    const std::string yaml = random_study(seed);
    const LawsHeld held = check_monotone_laws(yaml);
    timed += held.timed ? 1 : 0;
    comparisons += held.comparisons;
    CAPTURE(seed, yaml);
    for (const std::string& broken : held.broken) FAIL_CHECK(broken);
  }
  CHECK(timed > 40);
  CHECK(comparisons > 500);
}

}  // namespace trainyard::monotone_laws_test
