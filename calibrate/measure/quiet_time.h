// Whether a calibration has what a profile needs, and, where load has taken its time, how much
// more it would need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/result/calibration.h"

namespace trainyard {

/// What is left to measure before a set can be believed: a probe of each type, and messages where
/// there are several ranks. "" of a set that has them.
std::string missing_of(const MeasuredSet& set);

/// The same of all `sizes`: "with 2 processes: bf16 kernels, messages; with 4: ...".
std::string missing_of(const Calibration& calibration, const std::vector<std::int64_t>& sizes);

/// This start's share in what was measured: `now` less `before`, sets and all.
struct QuietTime {
  Seconds kept = 0;     // that went into samples
  LoadTally set_aside;  // under load, and waiting for it to end
};
QuietTime quiet_time(const Calibration& before, const Calibration& now);

/// `asked` seconds of a quiet machine, of which `done` are in the samples: so many more at a load
/// that leaves the share `quiet` of the time. nullopt: it leaves hardly any.
std::optional<Seconds> time_needed(Seconds asked, Seconds done, const QuietTime& quiet);

/// Why there is no profile: load, steal, what is missing, and the minutes that it would need.
/// nullopt: nothing that the sets of `sizes` processes must have is missing, or no load is why.
std::optional<std::string> too_few_quiet_samples(const Calibration& before, const Calibration& now,
                                                 const std::vector<std::int64_t>& sizes,
                                                 const LoadTally& waited, int cpus, Seconds asked);

}  // namespace trainyard
