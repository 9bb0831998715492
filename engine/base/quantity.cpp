#include "engine/base/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

/// A unit is multiplier / divisor of the base unit: both are exact, so "5 us" is exactly 5e-6.
struct InputUnit {
  std::string_view name;
  double multiplier;
  double divisor = 1;
};

constexpr double kKi = 1024;
constexpr double kMi = kKi * kKi;
constexpr double kGi = kKi * kMi;

constexpr InputUnit kDurationUnits[] = {{"s", 1},       {"ms", 1, 1e3}, {"us", 1, 1e6},
                                        {"µs", 1, 1e6}, {"ns", 1, 1e9}, {"min", 60}};
constexpr InputUnit kBandwidths[] = {
    {"B/s", 1},         {"kB/s", 1e3},      {"MB/s", 1e6},      {"GB/s", 1e9},   {"TB/s", 1e12},
    {"KiB/s", kKi},     {"MiB/s", kMi},     {"GiB/s", kGi},     {"bit/s", 1, 8}, {"kbit/s", 1e3, 8},
    {"Mbit/s", 1e6, 8}, {"Gbit/s", 1e9, 8}, {"Tbit/s", 1e12, 8}};
constexpr InputUnit kSizes[] = {{"B", 1},     {"kB", 1e3},  {"MB", 1e6},
                                {"GB", 1e9},  {"TB", 1e12}, {"KiB", kKi},
                                {"MiB", kMi}, {"GiB", kGi}, {"TiB", kKi* kGi}};
constexpr InputUnit kFlopRateUnits[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr InputUnit kNodeCounts[] = {{"nodes", 1}, {"node", 1}};

struct DimensionWords {
  std::span<const InputUnit> units;
  std::string_view noun;
  std::array<std::string_view, 2> suggested;  // likely meant when the unit is missing
};

DimensionWords words(Dimension dimension) {
  switch (dimension) {
    case Dimension::kDuration: return {kDurationUnits, "a duration", {"us", "ms"}};
    case Dimension::kBandwidth: return {kBandwidths, "a bandwidth", {" GB/s", " Gbit/s"}};
    case Dimension::kBytes: return {kSizes, "a size", {"MiB", "MB"}};
    case Dimension::kFlopRate: return {kFlopRateUnits, "a compute rate", {" TFLOP/s", " GFLOP/s"}};
    case Dimension::kNodes: return {kNodeCounts, "a number of nodes", {" nodes", " node"}};
  }
  return {};
}

std::string unit_list(std::span<const InputUnit> units) {
  std::string text;
  for (const InputUnit& unit : units) {
    if (!text.empty()) text += ", ";
    text += unit.name;
  }
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Length of the number at the start of `text`: [+-] digits [. digits] [e [+-] digits]; 0: none.
std::size_t number_length(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - start;
  };
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  std::size_t num_digits = digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    num_digits += digits();
  }
  if (num_digits == 0) return 0;
  const std::size_t mantissa_end = i;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return mantissa_end;
  }
  return i;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  if (text.empty() || number_length(text) != text.size()) return std::nullopt;
  if (text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

bool reads_as_text(std::string_view text) {
  for (const std::string_view word :
       {"true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN", ".NAN"}) {
    if (text == word) return false;
  }
  const bool other_base = text.starts_with("0x") || text.starts_with("0o");
  if (other_base && text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos) {
    return false;
  }
  std::string_view unsigned_text = text;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) unsigned_text.remove_prefix(1);
  for (const std::string_view word : {".inf", ".Inf", ".INF"}) {
    if (unsigned_text == word) return false;
  }
  return text.empty() || number_length(text) != text.size();
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  // YAML 1.1 takes 3e-04 for text; a point makes it a number for every reader.
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

Quantity parse_quantity(std::string_view text, Dimension dimension) {
  const DimensionWords known = words(dimension);
  const std::string shown = in_quotes(text);
  const std::size_t length = number_length(text);
  const std::optional<double> number = parse_number(text.substr(0, length));
  if (!number) {
    return {0, "expected " + std::string(known.noun) + " such as 25" +
                   std::string(known.suggested[0]) + ", got " + shown};
  }
  std::string_view unit = text.substr(length);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) {
    const std::string digits(text);
    // So many are of the unit itself, as messages write it.
    if (*number >= 1e6 && known.units.front().multiplier == 1 && known.units.front().divisor == 1)
      return {
          0, shown + " has no unit; write " + digits + " " + std::string(known.units.front().name)};
    return {0, shown + " has no unit; write " + digits + std::string(known.suggested[0]) + " or " +
                   digits + std::string(known.suggested[1])};
  }
  for (const InputUnit& candidate : known.units) {
    if (candidate.name != unit) continue;
    const double value = *number * candidate.multiplier / candidate.divisor;
    if (!std::isfinite(value)) return {0, shown + " is too large"};
    if (value < 0) return {0, "expected 0 or more, got " + shown};
    return {value, ""};
  }
  return {0, in_quotes(unit) + " is not a unit of " + std::string(known.noun.substr(2)) +
                 "; known: " + unit_list(known.units)};
}

}  // namespace trainyard
