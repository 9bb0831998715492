#include "engine/base/readable.h"

#include <array>
#include <cmath>
#include <span>

#include "engine/base/format.h"

namespace trainyard {

namespace {

/// A unit, and the value from which it is taken: a step of 100 s is said so, one of 20 minutes is
/// not 1200 s.
struct UnitFrom {
  Unit unit;
  double from = 0;
};
constexpr std::array<UnitFrom, 6> kDurations = {{{{"ns", 1e-9}, 0},
                                                 {{"us", 1e-6}, 1e-6},
                                                 {{"ms", 1e-3}, 1e-3},
                                                 {{"s", 1}, 1},
                                                 {{"min", 60}, 600},
                                                 {{"h", 3600}, 7200}}};
/// Durations in tables: up to 9999.999 ms, so that a thousandth of the largest is still told.
constexpr std::array<UnitFrom, 4> kTableDurations = {
    {{{"us", 1e-6}, 0}, {{"ms", 1e-3}, 1e-2}, {{"s", 1}, 10}, {{"h", 3600}, 36000}}};
constexpr std::array<Unit, 6> kBytes = {{{"B", 1},
                                         {"KiB", 1024},
                                         {"MiB", kMiB},
                                         {"GiB", kGiB},
                                         {"TiB", 1024 * kGiB},
                                         {"PiB", 1024 * 1024 * kGiB}}};
constexpr std::array<Unit, 5> kByteRates = {
    {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}};
constexpr std::array<Unit, 6> kFlopRates = {{{"FLOP/s", 1},
                                             {"kFLOP/s", 1e3},
                                             {"MFLOP/s", 1e6},
                                             {"GFLOP/s", 1e9},
                                             {"TFLOP/s", 1e12},
                                             {"PFLOP/s", 1e15}}};

Unit unit_of(double value, std::span<const UnitFrom> units) {
  Unit found = units.front().unit;
  for (const UnitFrom& one : units) {
    if (std::abs(value) >= one.from) found = one.unit;
  }
  return found;
}

/// The last unit of which `value` has at least `least`; else the first.
Unit unit_of(double value, std::span<const Unit> units, double least) {
  Unit found = units.front();
  for (const Unit& unit : units) {
    if (std::abs(value) >= least * unit.size) found = unit;
  }
  return found;
}

/// Four digits: "1.234", "12.34", "123.4", "1234".
std::string four_digits(double number) {
  const double size = std::abs(number);
  return format("%.*f", size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0, number);
}

std::string with_unit(double value, std::span<const Unit> units) {
  const Unit unit = unit_of(value, units, 1);
  const bool whole = unit.size == 1 && std::floor(value) == value;
  return (whole ? format("%.0f ", value) : four_digits(value / unit.size) + " ").append(unit.name);
}

}  // namespace

std::string duration_text(Seconds seconds) {
  // Sums of seconds leave less than a picosecond of what should be nothing.
  if (std::abs(seconds) < 5e-13) return "0 s";
  const Unit unit = unit_of(seconds, kDurations);
  return format("%.3f ", seconds / unit.size).append(unit.name);
}

std::string signed_duration_text(Seconds seconds) {
  return (seconds > 5e-13 ? "+" : "") + duration_text(seconds);
}

std::string bytes_text(double bytes) {
  // Means of ranks and shares of messages have parts of bytes.
  return with_unit(std::abs(bytes) < 1023.5 ? std::round(bytes) : bytes, kBytes);
}

std::string bytes_text(Bytes bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string byte_rate_text(double bytes_per_s) { return with_unit(bytes_per_s, kByteRates); }

std::string flop_rate_text(double flop_per_s) { return with_unit(flop_per_s, kFlopRates); }

std::string count_text(double number) {
  if (number >= 1e12) return format("%.2f T", number / 1e12);
  if (number >= 1e9) return format("%.2f B", number / 1e9);
  if (number >= 1e6) return format("%.1f M", number / 1e6);
  if (number >= 1e4) return format("%.1f k", number / 1e3);
  return format("%.4g", number);
}

std::string plural(std::int64_t count, std::string_view one, std::string_view many) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(one);
  return many.empty() ? text.append(one) + "s" : text.append(many);
}

Unit duration_unit(Seconds largest) { return unit_of(largest, kTableDurations); }

Unit bytes_unit(double smallest) {
  // Two digits show what is at least half a hundredth of the unit. From KiB to GiB.
  return unit_of(smallest, std::span(kBytes).subspan(1, 3), 0.005);
}

}  // namespace trainyard
