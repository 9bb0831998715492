// A Program's segments prepared for timing: flat ops with the durations of their kernels and only
// those dependencies that stream order does not already imply. stream_list.h makes lists of calls
// of them.
//
// A storage needs tracking only where two streams touch it; everything else is ordered by the
// stream it lives on. Of those, most are local to a call and come down to waiting for a stream
// (stream_waits.h). So most ops have no tracked operand, and timing one costs a few compares.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/exec/channels/fold.h"
#include "engine/exec/costs.h"
#include "engine/program/program.h"

namespace trainyard {

/// A copy between device and host is a kSend that nobody receives.
enum class TimedKind : std::uint8_t { kKernel, kFree, kCollective, kSend, kReceive };

/// One tracked operand: a slot of the rank's state. An `after` edge to an op of another stream is
/// one too: that op writes a slot of its own, and the op with the edge waits for it, neither a
/// reader nor a writer.
struct Dependency {
  std::uint32_t slot = 0;  // first instance; microbatch-scoped storages have one per microbatch
  std::uint8_t microbatch = 0;  // those: 1, 2: of the call's first, second one; else 0
  bool reads = false;
  bool writes = false;
  bool waits = true;  // false: nobody else touches it before; only its time is noted
};

struct TimedOp {
  Seconds duration = 0;  // of a kernel; communication is timed per channel
  Seconds launch = 0;
  TimedKind kind = TimedKind::kKernel;
  StreamId stream = StreamId::kMain;
  bool host_sync = false;
  bool update = false;       // phase U: counts as optimizer
  bool has_row = true;       // in traces; false: it does nothing on this rank
  StreamSet waits = 0;       // bit s: for the latest op of stream s
  bool takes_arena = false;  // side stream writes arena storage: waits for the frees issued before
  std::int32_t pool_taken = -1;    // pool of this rank whose next slot it fills
  std::int32_t exposed_kind = -1;  // communication, updates on the host: index into exposed_kinds()
  MessageId message = kNoIndex;    // communication
  std::uint32_t first_dependency = 0;
  std::uint16_t num_dependencies = 0;
  std::uint16_t num_pools_given = 0;  // frees: pools given back, in pools_given
  std::uint32_t first_pool_given = 0;
  std::int32_t work = -1;      // number of its symbol of work; -1: `duration` is what it takes
  std::uint8_t work_slot = 0;  // which of the call's microbatches it is of
  std::int32_t run = -1;  // index into TimedSegment::runs of the run that begins here; -1: none
  Flop flop = 0;
};

/// Kernels (and frees between them) that follow one another on the main stream with nothing to wait
/// for but, the first, other streams. Once the first has started they run back to back, unless the
/// host issues too late:
///   end = start + duration,   if host + slack <= start   (host: its time before the first launch)
/// so that a whole run is timed by one addition; otherwise its ops are timed one by one.
struct TimedKernels {
  std::uint32_t num_ops = 0;
  std::int64_t num_events = 0;  // without frees
  Seconds duration = 0;
  Seconds launch = 0;  // of all its ops
  Seconds first_launch = 0;
  Seconds slack = 0;            // max over later ops of (launches up to it) - (durations before it)
  std::int32_t last_free = -1;  // of its ops the last before its last free; -1: it has none
  Flop flop = 0;
  std::uint32_t first_note = 0;  // in TimedRank::notes
  std::uint32_t num_notes = 0;
};

/// A run's op that ends `offset` after the run's start touches a tracked storage.
struct RunNote {
  Dependency dependency;
  Seconds offset = 0;
  std::uint32_t op = 0;  // of the run
};

struct TimedSegment {
  std::vector<TimedOp> ops;
  Indexed<std::int32_t, TimedKernels> runs;
};

/// Timing form of the segments that one list calls, on a device of one speed and, where values have
/// owners, at one coordinate along dp.
struct TimedRank {
  std::unordered_map<SegmentId, TimedSegment> segments;
  std::vector<Dependency> dependencies;
  std::vector<RunNote> notes;
  Indexed<std::int32_t, int> pool_slots;  // [pool of this rank]: the pools it uses, numbered from 0
  std::vector<std::int32_t> pools_given;  // pools of this rank
  std::size_t num_slots = 0;              // instances of tracked storages
  std::int32_t num_works = 0;             // symbols of work in the Program
};

/// Makes the timing form of one list after another; all arguments must outlive it.
class TimedRanks {
 public:
  TimedRanks(const Program& program, const Costs& costs, const Lanes& lanes);
  ~TimedRanks();
  /// `place`: among the Program's owners; -1: it has none.
  TimedRank make(std::size_t list, double speed, std::int32_t place);

 private:
  class Lowering;
  std::unique_ptr<Lowering> lowering_;
};

}  // namespace trainyard
