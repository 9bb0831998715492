// One rank of a plan, run alone on this machine: its kernels and its memory are real, its peers are
// not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "calibrate/validate/run_measurement.h"
#include "engine/base/units.h"
#include "real/command/training_run.h"

namespace trainyard {

/// What a rank needs of the machine that it is emulated on, counted before anything is allocated.
struct EmulationNeed {
  Bytes values = 0;     // the Program's, at their peak
  Bytes workspace = 0;  // of the op that wants most beside them; of GPUs unknown, 0
  Bytes kept = 0;       // on CPUs: blocks that wait for the next tensor of their size, at most
  Bytes used() const { return values + workspace; }
  Bytes total() const { return used() + kept; }
};
EmulationNeed emulation_need(const Program& program, std::size_t list, bool on_gpu, int threads);

/// cpu | cuda: whose kernels the study says.
std::string kernels_word(const Study& study);

/// As train does: OMP_NUM_THREADS wins over all but `threads`, and `ranks` of a local cluster share
/// the machine's cores.
void use_threads(std::optional<std::int64_t> threads, const Study& study, std::int64_t ranks);

/// Says what is missing before a rank takes what others on this machine would be ended for.
void check_memory(const TrainingPlan& plan, std::int64_t rank);

/// Bytes that this process could still take: of a GPU's memory, or of the machine's as far as its
/// cgroup allows.
Bytes available_bytes(bool on_gpu);

struct EmulatedRank {
  std::int64_t rank = 0;
  std::size_t list = 0;  // pipeline rank
  EmulationNeed predicted;
  Bytes values_peak = 0;     // the Program's values that were alive at most
  Bytes allocated_peak = 0;  // LibTorch's tensors
  RunMeasurement recorded;   // steps with this rank alone
};

/// Runs steps of `rank` with stand-ins for its communication: one to warm up, then `steps` recorded
/// ones; unsaid, at least 3, and up to 20 as long as they take less than two seconds together.
/// Throws BackendError.
EmulatedRank emulate_rank(const TrainingPlan& plan, std::int64_t rank,
                          std::optional<std::int64_t> steps);

}  // namespace trainyard
