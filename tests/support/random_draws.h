// Random numbers of tests, the same with every standard library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace trainyard {

class RandomDraws {
 public:
  explicit RandomDraws(std::uint64_t seed) : random_(seed) {}

  /// From 0. Not std::uniform_int_distribution, whose numbers differ between standard libraries.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }

  template <typename T>
  T one_of(std::initializer_list<T> items) {
    return items.begin()[below(std::ssize(items))];
  }
  std::string word(std::initializer_list<const char*> items) { return one_of(items); }

  /// A divisor of `number`, at most `most`.
  std::int64_t divisor(std::int64_t number, std::int64_t most) {
    std::vector<std::int64_t> all;
    for (std::int64_t d = 1; d <= std::min(number, most); ++d) {
      if (number % d == 0) all.push_back(d);
    }
    return all[static_cast<std::size_t>(below(std::ssize(all)))];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace trainyard
