// Starts the ranks of a run as processes of this machine and watches them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "real/launch/failure.h"
#include "real/launch/rank_environment.h"

namespace trainyard {

struct RunEnd {
  int exit = 0;
  std::string message;  // why, of a run that failed; said on stderr already
  bool out_of_time = false;  // it was ended; exit is 0
};

/// Runs `arguments` (this program's own, argv[0] and all) once per rank, each told its rank by
/// TRAINYARD_* variables, and waits for all. The first that fails ends the others; what it was
/// doing and why is said on stderr. Ranks that are still at work at `until` are ended.
RunEnd run_local_ranks(
    const std::vector<std::string>& arguments, std::int64_t ranks,
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());

/// First thing in main(): a process that run_local_ranks() has started ends with the one that started it, also
/// where that was killed while this one was still being loaded.
void end_with_supervisor();

/// What a rank leaves in the store for the supervisor when it fails; the first of all ranks counts.
void report_rank_error(const RankEnvironment& environment, const Failure& failure);

}  // namespace trainyard
