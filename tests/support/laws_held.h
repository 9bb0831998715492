// What came of checking laws of one study.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct LawsHeld {
  bool timed = false;               // the plan has a step; else nothing was checked
  int comparisons = 0;              // laws that had something to compare
  std::vector<std::string> broken;  // "busy: node 0 infiniband 0 out carries ..."
};

}  // namespace trainyard
