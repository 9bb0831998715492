// Measured numbers as profiles write them: five digits, which is more than any timing has.
#pragma once

#include <string>

#include "engine/base/provenance.h"
#include "engine/base/units.h"

namespace trainyard {

std::string digits(double value);
std::string microseconds(Seconds time);                     // "6.25 us"
std::string billions(double per_second, const char* unit);  // "12.5 GB/s"
std::string quoted_yaml(const std::string& text);
std::string kind_and_note(const Provenance& provenance);  // "kind: measured, note: ..."

}  // namespace trainyard
