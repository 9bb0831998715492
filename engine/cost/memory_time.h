// What a memory-bound kernel takes: the curve it follows, and the time of its bytes on it.
#pragma once

#include <string_view>

#include "engine/base/units.h"
#include "engine/cost/hardware_profile.h"

namespace trainyard {

class SourceLog;

/// The curve of kernels called `kernel`, or the default one; `entry`: which of both.
const MemoryCurve& memory_curve(const HardwareProfile& hardware, std::string_view kernel,
                                std::string_view& entry);

/// max(floor, startup + bytes / (efficiency x memory bandwidth)), seconds.
Seconds memory_time(double bytes, const MemoryCurve& curve, const HardwareProfile& hardware);

/// The same for a kernel that a framework runs beside the op's own, and notes the curve in `log`.
Seconds memory_time(double bytes, std::string_view kernel, const HardwareProfile& hardware,
                    SourceLog& log);

}  // namespace trainyard
