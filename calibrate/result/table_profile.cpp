#include "calibrate/result/table_profile.h"

#include "calibrate/result/curve_text.h"
#include "calibrate/result/yaml_numbers.h"
#include "engine/base/format.h"

namespace trainyard {

std::string table_profile_text(const KernelTable& table, const HardwareProfile& like,
                               const std::string& how) {
  std::string text =
      "# Written by trainyard calibrate from a table of timed kernels.\ndescription: " +
      quoted_yaml(like.description + ", products " + how) + "\n";
  text += "architecture: " + like.architecture + "\nlike: " + like.name +
          "\nlike_because: " + quoted_yaml("the table has products only") + "\n";
  std::string peaks;
  for (const auto& [type, rate] : like.peak)
    peaks += std::string(to_string(type)) + ": " + billions(rate, "GFLOP/s") + ", ";
  text += "peak: {" + peaks + kind_and_note(like.peak_provenance) + "}\n";
  text += "memory: {capacity: " + std::to_string(like.memory_capacity) +
          " B, reserved: " + std::to_string(like.memory_reserved) + " B, " +
          kind_and_note(like.memory_provenance) + "}\n";
  text += "bandwidth: {rate: " + billions(like.memory_bandwidth, "GB/s") + ", " +
          kind_and_note(like.bandwidth_provenance) + "}\n";
  text += "kernels:\n  - ranks: 1\n    launch: {time: " + microseconds(like.launch) + ", " +
          kind_and_note(like.launch_provenance) + "}\n";
  return text + curves_text(table.points, how);
}

}  // namespace trainyard
