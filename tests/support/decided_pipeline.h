// What tests ask of a pipeline that a partitioner has decided.
#pragma once

#include <algorithm>
#include <numeric>

#include "app/analytic_step.h"
#include "tests/support/studies.h"

namespace trainyard {

/// Seconds, with closed forms.
inline Seconds analytic_step(const Prepared& prepared) {
  return step_of(prepared, prepared.study, compiled_program(prepared), false).period;
}

/// The memory of the fullest rank, of what a device has.
inline double share_of_device(const Prepared& prepared) {
  Bytes most = 0;
  for (const MemoryPeak& peak : peaks_of(prepared, prepared.study, compiled_program(prepared)))
    most = std::max(most, peak.total);
  return static_cast<double>(most) / static_cast<double>(capacity_of(prepared));
}

inline int num_devices_of(const Study& study) {
  const auto& replicas = study.partition.replicas;
  if (replicas.empty()) return study.parallel.pipeline * study.parallel.data;
  return std::accumulate(replicas.begin(), replicas.end(), 0);
}

}  // namespace trainyard
