// 2,000 mistyped versions of small and of the shipped studies, through the whole path: each ends in
// a ConfigError, in a reason why the plan cannot run, or in a plausible result.
// bench/mutated_studies.cpp takes 100,000 of them under the sanitizers.
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/mutated_study.h"
#include "tests/support/study_outcome.h"

namespace trainyard::mutated_studies_test {

TEST_CASE("mistyped studies end in a message, a reason or a plausible result") {
  const StudyCorpus corpus = read_corpus();
  std::array<int, kNumOutcomes> count{};
  for (std::uint64_t seed = 2000; seed < 4000; ++seed) {
    const StudyFile study = mutated_study(corpus, seed);
    CAPTURE(seed, study.path, study.text);
    const Outcome outcome = run_study(study.text, {}, {}, study.path);
    CAPTURE(to_string(outcome.kind), outcome.reason);
    ++count[static_cast<std::size_t>(outcome.kind)];
    REQUIRE(find_implausible(outcome) == "");
    // A message names the place: the study itself, or a file that it names.
    if (outcome.kind == Outcome::Kind::kConfigError)
      CHECK(outcome.reason.find(':') != std::string::npos);
  }
  CHECK(count[0] > 150);
  CHECK(count[1] > 0);
  CHECK(count[3] > 500);
}

}  // namespace trainyard::mutated_studies_test
