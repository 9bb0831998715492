#include "engine/cost/host_times.h"

#include <algorithm>

namespace trainyard {

Seconds launch_time(const HardwareProfile& hardware, const SoftwareProfile& software,
                    std::int64_t tensor, SourceLog& log) {
  log.use(hardware.launch_provenance, hardware.name, "launch", "issuing ops");
  use_number("launch_factor", "issuing ops", software, log);
  if (tensor > 1) use_number("launch_growth", "issuing ops", software, log);
  const auto degree = static_cast<double>(std::min<std::int64_t>(tensor, 8));
  const double growth = tensor > 1 ? software.launch_growth * degree * degree * degree : 0;
  return hardware.launch * software.launch_factor * (1 + growth);
}

Seconds batch_time(const SoftwareProfile& software, SourceLog& log) {
  use_number("batch_us", "reading a microbatch", software, log);
  return 1e-6 * software.batch_us;
}

Seconds tensor_update_time(std::int64_t tensors, const SoftwareProfile& software, SourceLog& log) {
  if (tensors == 0) return 0;
  use_number("tensor_update_us", "the update of the weights", software, log);
  return 1e-6 * software.tensor_update_us * static_cast<double>(tensors);
}

Seconds message_time(const SoftwareProfile& software, bool first, SourceLog& log) {
  if (software.request_us == 0 && software.metadata_us == 0) return 0;
  use_number("request_us", "calls of modules", software, log);
  use_number("metadata_us", "calls of modules", software, log);
  return 1e-6 * (software.metadata_us + (first ? software.request_us : 0));
}

}  // namespace trainyard
