// Conversions between floating-point types: exact where the wider type holds every value of the
// narrower one, rounded once to nearest even everywhere else.
#include "real/checkpoint/convert.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace trainyard::convert_test {

namespace {

template <typename From, typename To>
To converted(DType from, From value, DType to) {
  To result{};
  convert(from, reinterpret_cast<const std::byte*>(&value), to,
          reinterpret_cast<std::byte*>(&result), 1);
  return result;
}

std::uint16_t to_half(double value) {
  return converted<double, std::uint16_t>(DType::kFp64, value, DType::kFp16);
}
std::uint16_t to_brain(double value) {
  return converted<double, std::uint16_t>(DType::kFp64, value, DType::kBf16);
}
double from_half(std::uint16_t bits) {
  return converted<std::uint16_t, double>(DType::kFp16, bits, DType::kFp64);
}
double from_brain(std::uint16_t bits) {
  return converted<std::uint16_t, double>(DType::kBf16, bits, DType::kFp64);
}

}  // namespace

TEST_CASE("every number of 16 bits survives the way through fp64 and fp32") {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    for (const DType type : {DType::kFp16, DType::kBf16}) {
      const auto wide = converted<std::uint16_t, double>(type, bits, DType::kFp64);
      const auto single = converted<std::uint16_t, float>(type, bits, DType::kFp32);
      const auto from_wide = converted<double, std::uint16_t>(DType::kFp64, wide, type);
      const auto from_single = converted<float, std::uint16_t>(DType::kFp32, single, type);
      if (std::isnan(wide)) {
        CHECK(std::isnan(single));
        CHECK(std::isnan(converted<std::uint16_t, double>(type, from_wide, DType::kFp64)));
        CHECK(std::isnan(converted<std::uint16_t, double>(type, from_single, DType::kFp64)));
        continue;
      }
      if (wide != single || from_wide != bits || from_single != bits) {
        CAPTURE(i, to_string(type), wide, single);
        FAIL("a number changed");
      }
    }
  }
}

TEST_CASE("known values") {
  CHECK(from_half(0x3c00) == 1);
  CHECK(from_half(0x7bff) == 65504);
  CHECK(from_half(0x0001) == 0x1p-24);
  CHECK(from_half(0xfc00) == -std::numeric_limits<double>::infinity());
  CHECK(from_brain(0x3f80) == 1);
  CHECK(from_brain(0xc049) == -3.140625);
  CHECK(to_half(65520) == 0x7c00);  // half-way to 65536, which is one too many
  CHECK(to_half(65519.999) == 0x7bff);
  CHECK(to_half(1e300) == 0x7c00);
  CHECK(to_brain(3.4e38) == 0x7f80);
  CHECK(to_half(-0.0) == 0x8000);
  CHECK(to_half(0x1p-25) == 0);  // a tie with the even zero
  CHECK(to_half(std::nextafter(0x1p-25, 1)) == 1);
  CHECK(to_half(0x1.ffcp-15) == 0x0400);  // rounds up into the normal numbers
  CHECK(to_brain(0x1p-134) == 0);
  CHECK(to_brain(0x1.8p-133) == 2);
}

TEST_CASE("between two neighbours, the nearer one; half-way, the even one") {
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {  // positive finite fp16
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double middle = (from_half(low) + from_half(high)) / 2;
    REQUIRE(to_half(middle) == (low % 2 == 0 ? low : high));
    REQUIRE(to_half(std::nextafter(middle, 0)) == low);
    REQUIRE(to_half(std::nextafter(middle, 1e9)) == high);
    REQUIRE(to_half(-middle) == (0x8000U | (low % 2 == 0 ? low : high)));
  }
  for (std::uint32_t i = 0; i < 0x7f7f; i += 7) {  // the same of bf16
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const double middle = (from_brain(low) + from_brain(high)) / 2;
    REQUIRE(to_brain(middle) == (low % 2 == 0 ? low : high));
    REQUIRE(to_brain(std::nextafter(middle, 0)) == low);
    REQUIRE(to_brain(std::nextafter(middle, 1e39)) == high);
  }
}

TEST_CASE("fp32 to bf16 is the same from fp32 and from fp64") {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    const auto direct = converted<float, std::uint16_t>(DType::kFp32, value, DType::kBf16);
    REQUIRE(direct == to_brain(static_cast<double>(value)));
  }
}

TEST_CASE("fp64 to bf16 rounds once") {
  // Just above a tie of bf16, by less than fp32 can see: through fp32 it would fall back on the
  // tie.
  CHECK(to_brain(1 + 0x1p-8 + 0x1p-40) == 0x3f81);
  CHECK(to_brain(1 + 0x1p-8) == 0x3f80);
}

TEST_CASE("integers are copied, never converted") {
  CHECK(is_convertible(DType::kInt64, DType::kInt64));
  CHECK_FALSE(is_convertible(DType::kInt64, DType::kFp64));
  CHECK(converted<std::int64_t, std::int64_t>(DType::kInt64, -5, DType::kInt64) == -5);
}

}  // namespace trainyard::convert_test
