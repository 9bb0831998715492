// A training run whose ops touch their memory from our own code, which a sanitizer sees as it does
// not see LibTorch's kernels: each op reads every element that it reads and writes every element
// that it writes, as it is, on the thread that runs the op. Communication takes a while that
// differs from run to run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/real/loopback_run.h"

namespace trainyard {

struct TouchOptions {
  int steps = 2;
  std::uint32_t seed = 1;  // of the delays
  /// Delay of a piece of communication before and behind its work, at most.
  std::chrono::microseconds delay{300};
  /// A planted bug: the main stream waits for no other.
  bool main_waits = true;
  /// Every rank sends heartbeats to a store, as in a run of several processes.
  bool heartbeats = false;
};

struct TouchedRun {
  LoopbackRun run;
  std::vector<std::string> heartbeats;  // [rank]: where it said last that it was
};

TouchedRun run_touched(const std::string& yaml, const std::vector<std::string>& sets,
                       const TouchOptions& options);

/// `threads` threads that each take and give back CPU tensors of several sizes, `rounds` times,
/// through the allocator that keeps blocks, and fill them. The number of tensors that did not hold
/// what was written.
int fill_tensors(std::size_t threads, std::size_t rounds);

}  // namespace trainyard
