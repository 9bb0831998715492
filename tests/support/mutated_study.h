// Studies that somebody mistyped: small and shipped ones with bytes flipped, pieces deleted,
// swapped and doubled, numbers and words replaced. Each from its seed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct StudyFile {
  std::string path;
  std::string text;
};

/// The studies that are mistyped: tests/studies/*.yaml, small models that between them use every
/// key, and configs/*.yaml, the shipped ones, whose models make a step a hundred times as costly to
/// compile.
struct StudyCorpus {
  std::vector<StudyFile> small;
  std::vector<StudyFile> shipped;
};
StudyCorpus read_corpus();

/// `text` with one to four changes, by `seed`. The same on every machine.
std::string mutate(std::string text, std::uint64_t seed);

/// A study of the corpus, mistyped; they take turns, the shipped ones at every kShippedEvery-th
/// seed.
inline constexpr std::uint64_t kShippedEvery = 50;
StudyFile mutated_study(const StudyCorpus& corpus, std::uint64_t seed);

}  // namespace trainyard
