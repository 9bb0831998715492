// Where a figure comes from. Every number in a profile has one, and an answer lists those it used.
#pragma once

#include <string>

namespace trainyard {

struct Provenance {
  std::string kind = "datasheet";  // measured | fitted | datasheet | derived
  std::string note;                // how, when, by whom, fitted to what
};

}  // namespace trainyard
