// What a rank's walk of the Program asks of its device and its communicators: every launch, wait
// and event of the streams, every call of the transport, and the memory that each op touches.
// Recorded between the executor and the host's device, which runs the work; a GPU's device is asked
// for the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

struct StreamCall {
  enum Kind : std::uint8_t { kLaunch, kWait, kRecord } kind = kLaunch;
  StreamId stream = StreamId::kMain;
  const ProgramOp* op = nullptr;  // launches
  std::int32_t event = -1;        // waits and records
};

/// Bytes [begin, end) that a launch reads, or writes or gives back.
struct MemoryAccess {
  std::size_t launch = 0;
  std::uintptr_t begin = 0, end = 0;
  bool writes = false;
};

struct TransportCall {
  OpKind kind = OpKind::kSend;
  std::int64_t bytes = 0;  // of the larger tensor
  std::int64_t peer = -1;  // transfers: its rank
  friend bool operator==(const TransportCall&, const TransportCall&) = default;
};

struct RecordedRank {
  std::vector<StreamCall> streams;
  std::vector<MemoryAccess> memory;
  /// Bytes [begin, end) that were asked of the device's share for other streams than main.
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> beside_main;
  std::map<std::string, std::vector<TransportCall>> calls;  // by communicator: "tp.1.0.2"
};

struct RecordedRun {
  Program program;
  std::vector<RecordedRank> ranks;
};

/// One step by loopback.
RecordedRun run_recorded(const std::string& yaml, const std::vector<std::string>& sets);

}  // namespace trainyard
