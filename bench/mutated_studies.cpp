// 100,000 mistyped versions of small and of the shipped studies (tests/support/mutated_study.h),
// through the whole path in one process; meant for the asan preset.
//   mutated_studies [--from SEED] [--count N]
#include "bench/outcome_count.h"
#include "tests/support/mutated_study.h"

int main(int argc, char** argv) {
  using namespace trainyard;
  const SeedRange range = parse_range(argc, argv, 100'000);
  const StudyCorpus corpus = read_corpus();
  OutcomeCount count;
  bool good = true;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const std::uint64_t seed = range.first + i;
    const StudyFile study = mutated_study(corpus, seed);
    count.begin(seed, study.text);
    good = count.end(run_study(study.text, {}, {}, study.path)) && good;
    if ((i + 1) % 1000 == 0) count.print_progress(range.count);
  }
  count.print_table();
  return good ? 0 : 1;
}
