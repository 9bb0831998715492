// One rank's training whose memory is looked at after each call.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

struct WatchedMemory {
  LoopbackRun run;
  std::vector<std::int64_t> live;  // bytes of the Program's values, after each call
  std::int64_t most = 0;
  MemoryPeak peak;  // what the Program says
};

/// Two steps on one rank. Checks after each call that as much is allocated as values are alive.
inline WatchedMemory watch_memory(const std::string& text, const std::vector<std::string>& sets) {
  WatchedMemory out;
  LoopbackOptions options;
  options.steps = 2;
  options.watch_memory = [&](const Call& call, std::int64_t allocated, std::int64_t live) {
    CAPTURE(call.segment, call.mb[0]);
    CHECK(allocated == live);
    out.live.push_back(live);
  };
  out.run = run_loopback(text, sets, options);
  REQUIRE(!out.live.empty());
  out.most = *std::max_element(out.live.begin(), out.live.end());
  out.peak = memory_peaks(out.run.program, {})[0];
  return out;
}

}  // namespace trainyard
