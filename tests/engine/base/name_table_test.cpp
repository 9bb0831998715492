// Names and their numbers, held against a map through random additions and removals.
#include "engine/base/name_table.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace trainyard::name_table_test {

TEST_CASE("a name has the number that it was given first, until it is gone") {
  std::mt19937_64 random(7);
  NameTable table;
  std::vector<std::string> names;  // [number]
  std::map<std::string, std::int32_t> expected;
  const auto name_of = [&](std::int32_t number) -> std::string_view { return names[number]; };
  for (int step = 0; step < 20'000; ++step) {
    const std::string name = "encoder.layers." + std::to_string(random() % 3'000) + ".weight";
    const auto known = expected.find(name);
    CHECK(table.find(name, name_of) == (known == expected.end() ? -1 : known->second));
    if (random() % 4 == 0) {
      table.erase(name, name_of);
      expected.erase(name);
      continue;
    }
    const auto number = static_cast<std::int32_t>(names.size());
    const auto [of, is_new] = table.insert(name, number, name_of);
    CHECK(is_new == (known == expected.end()));
    CHECK(of == expected.try_emplace(name, number).first->second);
    if (is_new) names.push_back(name);
  }
  CHECK(names.size() > expected.size());
}

TEST_CASE("a table without names has none, and room for many changes none") {
  NameTable table;
  const std::vector<std::string> names{"a", "b"};
  const auto name_of = [&](std::int32_t number) -> std::string_view { return names[number]; };
  CHECK(table.find("a", name_of) == -1);
  table.erase("a", name_of);
  CHECK(table.insert("a", 0, name_of) == std::pair(0, true));
  CHECK(table.insert("b", 1, name_of) == std::pair(1, true));
  table.reserve(10'000);
  CHECK(table.find("a", name_of) == 0);
  CHECK(table.insert("b", 2, name_of) == std::pair(1, false));
}

}  // namespace trainyard::name_table_test
