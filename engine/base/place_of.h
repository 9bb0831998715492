// Places in lists and texts as numbers that index them.
#pragma once

#include <algorithm>
#include <cstddef>

namespace trainyard {

/// How many entries lie from `begin` to before `end`, which is not before it.
template <typename Iterator>
constexpr std::size_t length_between(Iterator begin, Iterator end) {
  return static_cast<std::size_t>(end - begin);
}

/// Where `value` stands first in `list`; list.size(): nowhere.
template <typename List, typename Value>
constexpr std::size_t place_of(const List& list, const Value& value) {
  return length_between(list.begin(), std::find(list.begin(), list.end(), value));
}

}  // namespace trainyard
