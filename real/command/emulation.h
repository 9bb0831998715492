// `trainyard emulate`: ranks of a plan, one after the other, with real kernels and real memory on
// this machine, and the whole plan simulated again with what they took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/real_options.h"
#include "engine/exec/trace.h"
#include "engine/memory/memory.h"
#include "real/command/emulated_rank.h"

namespace trainyard {

/// Seconds per step of a rank's own work, without waiting.
struct OwnTime {
  Seconds compute = 0, optimizer = 0;
};

struct EmulatedAnswer {
  EmulatedRank run;
  OwnTime predicted, measured;  // kernels
  Seconds host = 0;             // measured: between kernels, frees in (a GPU: launches)
  Seconds step = 0;             // measured, alone
  TimeClasses among_peers;      // of its pipeline rank, in the simulation of Emulation::like_step
  MemoryPeak study_peak;        // predicted for the study's own kernels and devices, context in
  Bytes study_headroom = 0;     // of the study's device; negative: does not fit by so much
};

struct Emulation {
  std::string study;
  std::string device;         // cpu | cuda
  std::string study_device;   // a100-sxm-80g
  std::string peers_profile;  // whose predicted times the ranks have that were not emulated
  std::string digest;         // of what ran
  std::string study_digest;   // of the study as it stands: other kernels, other Program
  std::int64_t num_ranks = 0;
  std::int64_t threads = 0;
  Bytes study_capacity = 0;
  Seconds study_step = 0;      // predicted for the study's own devices
  Seconds predicted_step = 0;  // of the Program that ran, with peers_profile
  Seconds recorded_step = 0;   // the same, with the recorded costs of the emulated ranks
  /// The same, where ops of the other ranks cost what was recorded of their kind
  /// (spread_to_like_ops()).
  Seconds like_step = 0;
  std::vector<EmulatedAnswer> ranks;
  std::vector<std::string> warnings;
  bool fits() const;
};

/// Throws ConfigError where the study or a rank of it cannot be emulated, PlanError where a rank
/// needs more memory than this machine has, before it is taken, and BackendError.
Emulation emulate(const EmulateOptions& options);

std::string emulation_text(const Emulation& emulation);
std::string emulation_json(const Emulation& emulation);

}  // namespace trainyard
