// A list as a set: in order, each element once.
#pragma once

#include <algorithm>

namespace trainyard {

template <typename List>
void sort_unique(List& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace trainyard
