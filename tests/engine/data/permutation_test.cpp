// The keyed permutation: a bijection at every size, and another one in every epoch.
#include "engine/data/permutation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace trainyard::permutation_test {

namespace {

std::vector<std::int64_t> images(std::int64_t size, std::int64_t seed, std::int64_t epoch) {
  const KeyedPermutation permutation(size, seed, epoch);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < size; ++i) all.push_back(permutation(i));
  return all;
}

bool is_bijection(const std::vector<std::int64_t>& images) {
  std::vector<bool> seen(images.size(), false);
  for (const std::int64_t image : images) {
    if (image < 0 || image >= static_cast<std::int64_t>(images.size())) return false;
    if (seen[static_cast<std::size_t>(image)]) return false;
    seen[static_cast<std::size_t>(image)] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("every number stands at exactly one place") {
  for (std::int64_t size = 1; size <= 300; ++size) {
    CAPTURE(size);
    CHECK(is_bijection(images(size, 1, 0)));
  }
  for (const std::int64_t size : {1023, 1024, 1025, 4096, 4097, 65'536, 65'537, 100'003}) {
    CAPTURE(size);
    CHECK(is_bijection(images(size, 7, 3)));
  }
}

TEST_CASE("places of a huge permutation are answered without its others") {
  const std::int64_t size = (std::int64_t{1} << 62) - 5;
  const KeyedPermutation permutation(size, 1, 0);
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{1}, size / 2, size - 1}) {
    CHECK(permutation(place) >= 0);
    CHECK(permutation(place) < size);
  }
  CHECK(permutation(0) != permutation(1));
}

TEST_CASE("epochs and seeds have their own order, and always the same one") {
  CHECK(images(1000, 1, 0) == images(1000, 1, 0));
  CHECK(images(1000, 1, 0) != images(1000, 1, 1));
  CHECK(images(1000, 1, 0) != images(1000, 2, 0));
}

// Over many epochs each of the n numbers stands at a given place N/n times; 5 standard deviations.
TEST_CASE("no number prefers a place") {
  const std::int64_t size = GENERATE(5, 70);
  constexpr int kEpochs = 7000;
  const auto n = static_cast<double>(size);
  std::vector<int> counts(static_cast<std::size_t>(size * size), 0);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<std::int64_t> order = images(size, 1, epoch);
    for (std::int64_t place : {std::int64_t{0}, size - 1}) {
      ++counts[static_cast<std::size_t>(place * size + order[static_cast<std::size_t>(place)])];
    }
  }
  for (std::int64_t place : {std::int64_t{0}, size - 1}) {
    for (std::int64_t image = 0; image < size; ++image) {
      const int count = counts[static_cast<std::size_t>(place * size + image)];
      CHECK(std::abs(count - kEpochs / n) < 5 * std::sqrt(kEpochs / n));
    }
  }
}

// Neighbours end up independent: |image(i + 1) - image(i)| has the mean n / 3 for a random order.
TEST_CASE("neighbours are not kept together") {
  const std::vector<std::int64_t> order = images(100'000, 1, 0);
  double sum = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    sum += static_cast<double>(std::abs(order[i] - order[i - 1]));
  }
  // The distance's variance is n^2 / 18; neighbouring distances are nearly uncorrelated.
  const auto n = static_cast<double>(order.size());
  CHECK(std::abs(sum / (n - 1) - n / 3) < 5 * std::sqrt(n * n / 18 / n));
}

}  // namespace trainyard::permutation_test
