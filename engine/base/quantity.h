// Quantities as a user writes them: a number and a unit, "300 GB/s", "200 Gbit/s", "5us", "80 GiB".
// Decimal prefixes are powers of 1000, binary ones (KiB, MiB, ...) powers of 1024; B is a byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

enum class Dimension : std::uint8_t { kDuration, kBandwidth, kBytes, kFlopRate, kNodes };

/// A value in seconds, bytes/s, bytes, FLOP/s or nodes; or what is wrong with the text and a
/// spelling that would be right.
struct Quantity {
  double value = 0;
  std::string problem;  // empty: value holds
};

Quantity parse_quantity(std::string_view text, Dimension dimension);

/// The whole text as a finite decimal number ("1536", "-0.5", "40e6"), nullopt otherwise.
std::optional<double> parse_number(std::string_view text);

/// Whether YAML 1.2 reads `text`, unquoted, as text: not as a number or a truth value.
bool reads_as_text(std::string_view text);

/// The shortest decimal text that parse_number() reads back to exactly `value`.
std::string number_text(double value);

}  // namespace trainyard
