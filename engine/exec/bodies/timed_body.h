// Segment reuse: the middle of a segment, from one collective to the last of its kernels, timed
// once and used again for every microbatch and every group that runs it alike.
//
// A body is a stretch of a segment in which main and one other stream only wait for each other:
// kernels, and the collectives of one group that join its ranks. The ranks that the group connects
// run it jointly. As a function of when they enter it, its times are a max-plus map; once the first
// collective has started later than every other input matters, all of it is that start plus
// constants, which is the case kept and reused here. Where another input matters (the host issues
// late, main is late) the body is timed op by op instead. Exact either way; only where nothing
// outside contends with the group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/exec/lists/timed_program.h"

namespace trainyard {

struct TimedBody {
  SegmentId segment = kNoIndex;
  std::uint32_t first = 0;  // op of the segment: a collective
  std::uint32_t num_ops = 0;
  StreamId stream = StreamId::kTp;    // of its collectives
  std::uint32_t last_collective = 0;  // of its ops
  bool main_follows = false;          // its first kernel waits for its first collective
  bool main_knows_last = false;       // an op of main waits for its last collective
  /// (op, earlier op of the other stream that it waits for), where that is not just the latest one.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  friend bool operator==(const TimedBody&, const TimedBody&) = default;
};

/// Where a body that begins with op k of the segment could end at most; 0: none begins there.
/// `allowed`: lanes whose collectives may be in one.
std::vector<std::uint32_t> find_body_ends(const TimedSegment& segment, const Lanes& lanes,
                                          const LaneSet& allowed);

/// One rank's entry into a body.
struct BodyEntry {
  const TimedOp* ops = nullptr;
  Seconds ready = 0;     // of the first collective on this rank
  Seconds main = 0;      // its main stream is free
  Seconds host = 0;      // host time before the first launch
  bool records = false;  // its ops are to be known one by one
};

/// A gap of the main stream, or (kind >= 0) a collective.
struct BodyEvent {
  std::int32_t kind = -1;
  Seconds begin = 0, end = 0;
  Seconds issued = 0;  // of a gap: launches from the entry to the op that ends it
};

struct BodyOpTimes {
  Seconds launched = 0;  // host time from before the first launch to its own
  Seconds ready = 0, start = 0;
};

/// What became of one rank.
struct BodyCourse {
  std::vector<Seconds> op_end;  // [op]; of a free: when main is past it
  Seconds main = 0, other = 0;  // ends of main and of the other stream
  Seconds compute = 0;
  Flop flop = 0;
  std::int64_t num_events = 0;
  Seconds first_kernel = 0;  // start of its first kernel
  Seconds first_launch = 0;  // host time from before the first launch to that of the first kernel
  Seconds slack = 0;  // least time from the host's entry to the start of the first collective
  std::vector<BodyEvent> events;      // in issue order
  std::vector<BodyOpTimes> op_times;  // [op], if recorded; of a free: nothing
};

/// Times a body op by op. `duration(message)`: of its collectives. One entry per rank that meets.
template <typename Duration>
std::vector<BodyCourse> time_body(const TimedBody& body, const std::vector<BodyEntry>& ranks,
                                  const Duration& duration);

/// The course of one rank relative to the start of the first collective, when nothing else matters.
struct BodyMap {
  BodyCourse course;
  std::vector<std::pair<std::int32_t, Seconds>> exposed;  // by kind, of gaps but the first
  std::vector<BodyEvent> open;  // parts of those gaps that its own collectives do not cover
  std::vector<BodyEvent>
      reaching;  // collectives that cover the first gap, or end after its last kernel
};
std::vector<BodyMap> map_body(std::vector<BodyCourse> courses, std::size_t num_kinds);

/// Where a rank is in a body.
struct BodyState {
  Seconds main, other, launched = 0;
  bool began = false;
};

/// Runs op k, a kernel or a free, once main is there and what it waits for has ended, at `start`.
inline void run_on_main(const TimedOp& op, std::uint32_t k, Seconds start, Seconds first_start,
                        const BodyEntry& entry, BodyState& state, BodyCourse& course) {
  if (op.kind == TimedKind::kKernel) {
    state.launched += op.launch;
    start = std::max(start, entry.host + state.launched);
  }
  if (start > state.main) course.events.push_back({-1, state.main, start, state.launched});
  state.main = start;
  if (op.kind != TimedKind::kFree) {
    course.slack = std::max(course.slack, state.launched - (start - first_start));
    if (!state.began) {
      state.began = true;
      course.first_kernel = start;
      course.first_launch = state.launched;
    }
    if (entry.records) course.op_times[k] = {state.launched, start, start};
    state.main += op.duration;
    course.compute += op.duration;
    course.flop += op.flop;
    ++course.num_events;
  }
  course.op_end[k] = state.main;
}

template <typename Duration>
std::vector<BodyCourse> time_body(const TimedBody& body, const std::vector<BodyEntry>& ranks,
                                  const Duration& duration) {
  std::vector<BodyCourse> out(ranks.size());
  std::vector<BodyState> states;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    states.push_back({ranks[i].main, ranks[i].ready});
    out[i].op_end.resize(body.num_ops);
    if (ranks[i].records) out[i].op_times.resize(body.num_ops);
    out[i].slack = -1e300;
  }
  const StreamSet main_bit = stream_bit(StreamId::kMain);
  const StreamSet other_bit = stream_bit(body.stream);
  Seconds first_start = 0;
  auto edge = body.edges.begin();
  for (std::uint32_t k = 0; k < body.num_ops; ++k) {
    const TimedOp& like = ranks.front().ops[k];
    while (edge != body.edges.end() && edge->first < k) ++edge;
    if (like.kind == TimedKind::kCollective) {
      Seconds start = 0;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        BodyState& state = states[i];
        const TimedOp& op = ranks[i].ops[k];
        state.launched += op.launch;
        Seconds ready = std::max(state.other, ranks[i].host + state.launched);
        if (k > 0 && (op.waits & main_bit) != 0) ready = std::max(ready, state.main);
        for (auto e = edge; e != body.edges.end() && e->first == k; ++e)
          ready = std::max(ready, out[i].op_end[e->second]);
        start = i == 0 ? ready : std::max(start, ready);
        if (ranks[i].records) out[i].op_times[k] = {state.launched, ready, 0};
      }
      if (k == 0) first_start = start;
      const Seconds end = start + duration(like.message);
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        states[i].other = end;
        out[i].op_end[k] = end;
        out[i].slack = std::max(out[i].slack, states[i].launched - (start - first_start));
        ++out[i].num_events;
        if (ranks[i].records) out[i].op_times[k].start = start;
        if (end > start) out[i].events.push_back({like.exposed_kind, start, end, 0});
      }
      continue;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      BodyState& state = states[i];
      BodyCourse& course = out[i];
      const TimedOp& op = ranks[i].ops[k];
      Seconds start = state.main;
      if ((op.waits & other_bit) != 0) start = std::max(start, state.other);
      for (auto e = edge; e != body.edges.end() && e->first == k; ++e)
        start = std::max(start, course.op_end[e->second]);
      run_on_main(op, k, start, first_start, ranks[i], state, course);
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    out[i].main = states[i].main;
    out[i].other = states[i].other;
  }
  return out;
}

}  // namespace trainyard
