// Numbers as text: what is shortest reads back exactly.
#include "engine/base/quantity.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace trainyard::quantity_test {

TEST_CASE("number_text is the shortest text that reads back") {
  CHECK(number_text(0.8) == "0.8");
  CHECK(number_text(300) == "300");
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-200, 200);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(mantissa(random), exponent(random));
    CHECK(parse_number(number_text(value)) == value);
  }
}

TEST_CASE("a number is the whole text") {
  CHECK(parse_number("1.") == 1);
  CHECK(parse_number("+2e+3") == 2000);
  for (const char* text : {"", " 1", "1 ", "1e", ".", "e5", "1,5", "infinity"}) {
    CHECK_FALSE(parse_number(text).has_value());
  }
}

}  // namespace trainyard::quantity_test
