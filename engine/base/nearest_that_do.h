// Values that would work in place of one that does not, for messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/user_text.h"

namespace trainyard {

/// The nearest values below and above `value`, from 1 to `most`, for which `works` holds: "6 and 8
/// do", "6 does", or "" when there is none.
template <class Works>
std::string nearest_that_do(std::int64_t value, std::int64_t most, Works works) {
  std::vector<std::string> found;
  for (std::int64_t below = std::min(value - 1, most); below >= 1; --below) {
    if (!works(below)) continue;
    found.push_back(std::to_string(below));
    break;
  }
  for (std::int64_t above = value + 1; above <= most; ++above) {
    if (!works(above)) continue;
    found.push_back(std::to_string(above));
    break;
  }
  if (found.empty()) return "";
  return join_words(found) + (found.size() == 1 ? " does" : " do");
}

inline std::string with_remedy(const std::string& problem, const std::string& remedy) {
  return remedy.empty() ? problem : problem + "; " + remedy;
}

}  // namespace trainyard
