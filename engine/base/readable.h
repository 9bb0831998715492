// Numbers with the unit that fits them, for people; files and JSON have SI units and bytes.
//
// Amounts of bytes are binary (KiB, MiB, GiB), memory and traffic alike; rates are decimal (GB/s),
// as datasheets and studies have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/units.h"

namespace trainyard {

std::string duration_text(Seconds seconds);  // "842.712 ms", "19.591 s", "18.587 min", "3.10 h"
std::string signed_duration_text(Seconds seconds);  // "+842.712 ms"
std::string bytes_text(double bytes);
std::string bytes_text(Bytes bytes);             // "57.13 GiB", "412.0 KiB"
std::string byte_rate_text(double bytes_per_s);  // "24.07 GB/s"
std::string flop_rate_text(double flop_per_s);   // "168.8 TFLOP/s", "21.40 GFLOP/s"
std::string count_text(double number);           // "174.62 B", "160.6 k"

/// "1 shape", "2 shapes"; `many` where an s does not do.
std::string plural(std::int64_t count, std::string_view one, std::string_view many = "");

/// One unit for all numbers of a table.
struct Unit {
  std::string_view name;
  double size = 1;
};
Unit duration_unit(Seconds largest);
/// The largest unit in which `smallest` does not print as 0.00.
Unit bytes_unit(double smallest);

}  // namespace trainyard
