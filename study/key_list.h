// Every key of a study, one line each, for `trainyard list keys` and docs/keys.md.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "study/study_key.h"

namespace trainyard {

struct KeyLine {
  std::string path;   // "training.lr.peak"; "LINK.bandwidth" of a map that stands in several places
  std::string takes;  // "a number, at least 0 and less than 1000000; or a map"
  std::string help;
  std::string fallback;  // empty: none to say
  std::string matters;   // for which families, schedules, ...; empty: for all
  std::vector<std::string> aliases;
};

std::vector<KeyLine> list_keys();

/// What a key takes, for a message: "an integer from 1 to 8, or a map with keys such as degree,
/// method and balance".
std::string takes_text(const StudyKey& key);

/// Visits every key at each of its places, as --set names it.
void each_key(const std::function<void(const std::string& path, const StudyKey& key)>& visit);

/// docs/keys.md: a test keeps it so.
std::string keys_page();

}  // namespace trainyard
