// Studies that somebody mistyped: the shipped ones with bytes flipped, pieces deleted, swapped and
// doubled, numbers and words replaced. Each from its seed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct StudyFile {
  std::string path;
  std::string text;
};

/// configs/*.yaml of this repository, by name.
std::vector<StudyFile> shipped_studies();

/// `text` with one to four changes, by `seed`. The same on every machine.
std::string mutate(std::string text, std::uint64_t seed);

/// One of `shipped` for `seed`, mistyped. They take turns; the trillion-parameter one, which costs as
/// much as all others together, has every 25th.
StudyFile mutated_study(const std::vector<StudyFile>& shipped, std::uint64_t seed);

}  // namespace trainyard
