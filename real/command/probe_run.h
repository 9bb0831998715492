// Runs a probe's steps and takes their trace apart into timings of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "calibrate/result/calibration.h"
#include "engine/graph/kernel_work.h"
#include "real/command/probe_studies.h"
#include "real/exec/communicator.h"
#include "real/exec/device.h"

namespace trainyard {

/// A communication of this rank that mostly ran beside its own kernels.
struct CoveredMessage {
  OpKind kind = OpKind::kAllReduce;
  Bytes bytes = 0;
  Seconds time = 0;
};

struct ProbeTimings {
  struct Kernel {
    KernelWork work;
    std::vector<Seconds> alone;     // no communication of this rank at the same time
    std::vector<std::size_t> step;  // of each in `alone`: index into `steps`
    std::vector<Seconds> covered;   // beside one for at least half of its time
  };
  std::vector<Kernel> kernels;
  std::vector<Seconds> launches;  // per step: host time per op beyond kernels and waiting
  std::vector<CoveredMessage> messages;
  std::vector<Seconds> steps;

  /// The mean in the steps between the fastest and the slowest quarter: such means add up to a
  /// typical step, where medians leave out that some kernel is always late. 0: none ran alone in
  /// one.
  Seconds typical(const Kernel& kernel) const;
};

/// `more(warm_up, timed)`: how many steps to time next, 0 to end; the same answer on all ranks.
using MoreSteps = std::function<int(Seconds warm_up, const std::vector<Seconds>& timed)>;
ProbeTimings run_probe(const CompiledProbe& probe, std::int64_t rank, Device& device,
                       Transport& transport, const MoreSteps& more);

}  // namespace trainyard
