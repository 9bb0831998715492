#include "engine/base/indexed.h"

#include <catch2/catch.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace trainyard::indexed_test {

namespace {

using FruitId = Index<struct Fruit>;
using BoxId = Index<struct Box, std::int16_t>;
enum class Colour : std::uint8_t { kRed, kGreen };

template <typename List, typename Key>
concept FoundBy = requires(List list, Key key) {
  list[key];
};

// As small as its number, and no other index, number or list of another index in its place.
static_assert(sizeof(FruitId) == 4 && sizeof(BoxId) == 2);
static_assert(std::is_trivially_copyable_v<FruitId>);
static_assert(!std::is_constructible_v<FruitId, BoxId>);
static_assert(!std::is_convertible_v<int, FruitId> && !std::is_convertible_v<FruitId, int>);
using Fruits = Indexed<FruitId, std::string>;
static_assert(FoundBy<Fruits, FruitId> && !FoundBy<Fruits, BoxId> && !FoundBy<Fruits, int> &&
              !FoundBy<Fruits, std::size_t>);
using Shades = IndexedArray<Colour, char, 2>;
static_assert(FoundBy<Shades, Colour> && !FoundBy<Shades, int>);

}  // namespace

TEST_CASE("an index names one entry of its list, or none", "[indexed]") {
  Fruits fruits;
  CHECK(fruits.next() == FruitId(0));
  CHECK(fruits.add("apple") == FruitId(0));
  const FruitId pear = fruits.add("pear");
  CHECK(pear.number() == 1);
  CHECK(fruits[pear] == "pear");
  CHECK(fruits.has(pear));
  CHECK_FALSE(fruits.has(pear + 1));
  CHECK_FALSE(fruits.has(kNoIndex));
  CHECK_FALSE(Indexed<BoxId, int>(3).has(kNoIndex));  // of a narrower number, too
  CHECK(FruitId() == kNoIndex);
  CHECK(FruitId(kNoIndex) < FruitId(0));
  CHECK(pear - FruitId(0) == 1);

  std::vector<std::string> seen;
  for (const FruitId id : fruits.keys()) seen.push_back(fruits[id]);
  CHECK(seen == std::vector<std::string>{"apple", "pear"});
  CHECK(Fruits().keys().begin() == Fruits().keys().end());

  const std::unordered_map<FruitId, int> weights = {{pear, 7}, {FruitId(0), 5}};
  CHECK(weights.at(pear) == 7);
}

TEST_CASE("lists are indexed by signed numbers and by words as well", "[indexed]") {
  Numbered<int> by_rank(std::int32_t{3}, 4);
  by_rank[std::int32_t{2}] = 9;
  CHECK(by_rank == Numbered<int>{4, 4, 9});
  CHECK_FALSE(by_rank.has(-1));
  by_rank.resize(4, 1);
  CHECK(by_rank[3] == 1);

  constexpr Shades kLetters = {'r', 'g'};
  std::string letters;
  for (const Colour colour : kLetters.keys()) letters += kLetters[colour];
  CHECK(letters == "rg");
}

}  // namespace trainyard::indexed_test
