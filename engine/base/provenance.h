// Where a figure comes from. Every number in a profile has one, and an answer lists those it used.
#pragma once

#include <string>

namespace trainyard {

struct Provenance {
  std::string kind = "datasheet";  // measured | fitted | datasheet | derived
  std::string note;                // how, when, by whom, fitted to what
  double interval = 0;  // half of the figure's 90 % interval, over the figure; 0: not said
};

}  // namespace trainyard
