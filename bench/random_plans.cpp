// 10,000 plans drawn at random (tests/support/random_plan.h), through the whole path in one
// process.
//   random_plans [--from SEED] [--count N]
#include "bench/outcome_count.h"

int main(int argc, char** argv) {
  using namespace trainyard;
  const SeedRange range = parse_range(argc, argv, 10'000);
  OutcomeCount count;
  bool good = true;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const std::string yaml = random_study(range.first + i);
    count.begin(range.first + i, yaml);
    good = count.end(run_study(yaml)) && good;
    if ((i + 1) % 1000 == 0) count.print_progress(range.count);
  }
  count.print_table();
  return good ? 0 : 1;
}
