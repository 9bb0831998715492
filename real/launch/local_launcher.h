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
  int signal = 0;       // that ended the run
  std::string
      kept;  // of such a run, where its ranks came to an end of their own: what they say is left
  bool out_of_time = false;  // it was ended; exit is 0
};

/// Runs `arguments` (this program's own, argv[0] and all) once per rank, each told its rank by
/// TRAINYARD_* variables, and waits for all. The first that fails ends the others; what it was
/// doing and why is said on stderr. Signals are for this process alone, whoever else they reach:
/// ranks that listen (StopAgreement) are asked to stop by the first one, others end at once, and so
/// do all by a second. Ranks that are still at work at `until` are ended.
RunEnd run_local_ranks(
    const std::vector<std::string>& arguments, std::int64_t ranks,
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());

/// First thing in main(): a process that run_local_ranks() has started ends with the one that
/// started it, also where that was killed while this one was still being loaded.
void end_with_supervisor();

/// Whether this process is one of those.
bool is_started_by_supervisor();

/// What a rank leaves in the store for the supervisor when it fails; the first of all ranks counts.
void report_rank_error(const RankEnvironment& environment, const Failure& failure);

}  // namespace trainyard
