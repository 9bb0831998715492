// The recorded step as reports show it: per rank its calls, their ops on streams, and the bytes
// alive.
//
// It holds what trace.json holds and no more, so that a report that is made again from the file is
// the same as the first one: times are whole ticks, as the file has them, and tables are numbered
// by first use. Simulated and real runs are alike here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/trace.h"
#include "engine/memory/memory.h"
#include "engine/program/program.h"
#include "engine/sharding/device_mesh.h"

namespace trainyard {

/// Tenths of a nanosecond since the earliest op of all ranks.
using Ticks = std::int64_t;
inline constexpr double kTicksPerSecond = 1e10;

struct TimelineSegment {
  std::string name;  // "3B"
  std::int32_t stage = 0;
  char phase = 'F';  // program_words.h
  bool per_microbatch = true;
  friend bool operator==(const TimelineSegment&, const TimelineSegment&) = default;
};

/// Ranks that meet in a collective are those that differ only along `axes`; both ends of a transfer
/// differ along its one axis.
struct TimelineGroup {
  std::string name;  // "tp"; a transfer's is its axis, a copy's "d2h" or "h2d"
  std::string axes;  // "pp,tp"; of a copy none
  friend bool operator==(const TimelineGroup&, const TimelineGroup&) = default;
};

/// Each member of a pair is a call of its own: the forward "0F3", the backward "7B1".
struct TimelineCall {
  std::uint32_t segment = 0;
  Microbatch mb = -1;
  std::int32_t with = -1;  // the call that it shares the device with, of the same rank; -1: none
  friend bool operator==(const TimelineCall&, const TimelineCall&) = default;
};

struct TimelineOp {
  std::uint32_t name = 0;    // Timeline::names
  std::uint32_t module = 0;  // Timeline::modules
  std::uint32_t call = 0;    // TimelineRank::calls
  std::int16_t group = -1;   // communication only: Timeline::groups
  StreamId stream = StreamId::kMain;
  std::int64_t peer = -1;  // transfers only: the rank at the other end
  std::int64_t flop = 0;   // of GEMMs and attention
  std::int64_t bytes = 0;  // of other kernels: read plus written; of communication: the message
  Ticks issued = 0, ready = 0, start = 0, end = 0;  // TraceRow
  friend bool operator==(const TimelineOp&, const TimelineOp&) = default;
};

/// From `at` on, until the next point, so many bytes are alive.
struct MemoryPoint {
  Ticks at = 0;
  MemoryParts bytes{};
  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// Most of a rank; where there are more they are thinned (memory_points.h).
inline constexpr std::size_t kMaxMemoryPoints = 6'000;

struct TimelineRank {
  std::int64_t rank = 0;
  std::int64_t multiplicity = 1;  // ranks that it stands for
  std::int32_t pipeline_rank = 0;
  Coordinate at;                     // on Timeline::axes
  Numbered<TimelineCall> calls;      // by first op
  std::vector<TimelineOp> ops;       // in issue order
  std::vector<MemoryPoint> memory;   // in order of time, at most kMaxMemoryPoints
  std::int64_t memory_left_out = 0;  // points beyond those
  friend bool operator==(const TimelineRank&, const TimelineRank&) = default;
};

struct Timeline {
  std::vector<std::string> axes;   // of the mesh
  std::vector<std::string> names;  // "all_gather"
  Numbered<std::string> modules;   // "decoder.layers.0.mlp"; "": none
  std::vector<TimelineSegment> segments;
  Numbered<TimelineGroup> groups;
  std::vector<TimelineRank> ranks;
  Ticks end() const;  // the latest end of any op
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// "3B7": the segment's name and the microbatch, if it has one.
std::string call_name(const TimelineSegment& segment, Microbatch mb);

/// Ranks of `trace` that have rows, which are given up one after the other: pass it with std::move
/// where they are many. Ops that take no time are left out. `fixed` as for memory_peaks();
/// bytes follow issue order, so that their peak is the Program's whatever the times: what an op of
/// the main stream writes is alive from its start, what it frees or another stream's op writes,
/// from where main has got to in its call.
Timeline make_timeline(const Program& program, Trace trace, const FixedMemory& fixed);

}  // namespace trainyard
