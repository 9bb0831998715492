#include "engine/cost/memory_time.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cost/cost_model.h"

namespace trainyard {

const MemoryCurve& memory_curve(const HardwareProfile& hardware, std::string_view kernel,
                                std::string_view& entry) {
  entry = kernel;
  auto found = hardware.memory_bound.find(entry);
  if (found == hardware.memory_bound.end()) {
    entry = "default";
    found = hardware.memory_bound.find(entry);
  }
  check(found != hardware.memory_bound.end(), "memory_bound curves have a default");
  return found->second;
}

Seconds memory_time(double bytes, const MemoryCurve& curve, const HardwareProfile& hardware) {
  return std::max(curve.floor,
                  curve.startup + bytes / (curve.efficiency * hardware.memory_bandwidth));
}

Seconds memory_time(double bytes, std::string_view kernel, const HardwareProfile& hardware,
                    SourceLog& log) {
  std::string_view entry;
  const MemoryCurve& curve = memory_curve(hardware, kernel, entry);
  log.use(curve.provenance, hardware.name, entry, "memory-bound kernels");
  return memory_time(bytes, curve, hardware);
}

}  // namespace trainyard
