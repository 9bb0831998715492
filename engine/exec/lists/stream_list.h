// One step of a rank's list of calls as the queues of its streams: items in host issue order, and
// for each the points of other streams that have to be reached before it is ready (program rule 2).
//
// All that rule 2 says about storage, pools, frees and `after` edges is settled here, once per
// list: an item waits for marks, and a mark is the end of an op that somebody waits for. What is
// known anyway, because an earlier item of the same stream waited for it, is left out. So every
// stream of a rank can go on by itself, in whatever order ends become known: an executor whose
// transfers take as long as the rest of the cluster lets them needs that, and one with closed forms
// loses nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/exec/lists/list_bodies.h"
#include "engine/exec/lists/timed_program.h"

namespace trainyard {

/// A mark of this step (even) or of the step before (odd): twice its number, and 0 or 1.
using MarkRef = std::uint32_t;

/// An op of an item whose end is a mark.
struct GivenMark {
  std::uint32_t mark = 0;
  std::uint32_t op = 0;  // of the run or body
  Seconds offset = 0;    // from the start of the run to its end
};

enum class ItemKind : std::uint8_t {
  kRun,
  kKernel,
  kFree,
  kCollective,
  kSend,
  kReceive,
  kBody,   // on main, with the collectives of another stream in it
  kFollow  // on that stream: ends with the last of them
};

/// Sized to a line of the processor's cache: running a list mostly waits for these.
struct StreamItem {
  ItemKind kind = ItemKind::kKernel;
  StreamId stream = StreamId::kMain;
  bool after_main = false;     // kBody: its first collective waits for what main did before
  std::uint8_t num_waits = 0;  // at most one per stream
  Microbatch mb = -1;
  SegmentId segment = kNoIndex;
  std::uint32_t op_index = 0;    // in its segment, of the first op
  std::int32_t body = -1;        // kBody: its number in StreamList::bodies. kKernel: where a row of
                                 // the WorkTable has its work; -1: it is the op's
  std::int32_t host = -1;        // MarkRef of the host's delay; -1: nothing has held it up
  std::int32_t gives_host = -1;  // the host waits for the end: number of the mark of its new delay
  std::uint32_t first_wait = 0;
  std::uint32_t first_given = 0, num_given = 0;
  const TimedOp* op = nullptr;        // the first
  const TimedKernels* run = nullptr;  // kRun
  Seconds issued = 0;  // host time of the step's launches up to the first op, it included
};
static_assert(sizeof(StreamItem) == 64);

struct StreamList {
  TimedRank timed;                          // what the items point into
  Indexed<std::int32_t, StreamItem> items;  // in issue order
  IndexedArray<StreamId, std::vector<std::uint32_t>, kNumStreams> streams;  // items of each
  std::vector<MarkRef> waits;
  std::vector<GivenMark> given;  // of each item, ascending op
  ListBodies bodies;
  std::vector<Seconds> issued_at_wait;  // of each op that the host waits for: StreamItem::issued;
                                        // their marks are the last
  std::size_t num_marks = 0;
  Seconds launch = 0;  // of a step
  /// Lanes on which a message may be under way at the same time on this rank.
  Indexed<LaneId, LaneSet> concurrent;
};

/// Launches from the begin of the item's step to the op that the host waited for before it; less
/// than 0 where that was in the step before.
Seconds issued_at_wait(const StreamList& list, const StreamItem& item);

struct StreamListOptions {
  bool whole_runs = true;     // false: every op is an item
  bool compute_only = false;  // as RunOptions
  LaneSet bodies;             // lanes whose collectives may be in bodies
  bool slows = false;         // which are slowed_body.h's
};

/// `list`: index into Program::body; `timed`: its timing form. At most kMostLanes.
StreamList make_stream_list(const Program& program, const Lanes& lanes, std::size_t list,
                            TimedRank timed, const StreamListOptions& options);

}  // namespace trainyard
