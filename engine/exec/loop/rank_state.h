// Where one rank is while a Program runs (program_run.cpp): its streams, the marks reached, and
// what its steps have come to so far.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/exec/lists/stream_list.h"
#include "engine/exec/times/event_list.h"
#include "engine/exec/times/idle_time.h"

namespace trainyard {

inline constexpr Seconds kUnknown = std::numeric_limits<Seconds>::quiet_NaN();

// Steps of one rank whose state is kept: streams are at most one step apart, marks of the step
// before are read, and one slot is being cleared.
inline constexpr std::size_t kKeptSteps = 4;

/// Which of them is `step`, or -1, the one before all.
constexpr std::size_t kept_step(std::int32_t step) { return position(step) % kKeptSteps; }

/// What one rank did in one step.
struct StepAccount {
  int streams_left = 0;
  Seconds compute = 0, optimizer = 0, end = 0;
  Seconds main_before = 0, main_end = 0;  // when the main stream began and ended the step
  Flop flop = 0;
  IndexedArray<StreamId, EventList, kNumStreams> events;  // ascending item; until settled
  std::vector<TimedEvent> open_events;     // gaps of bodies that no collective of theirs covers
  Indexed<std::int32_t, Seconds> exposed;  // [kind]: of bodies, by collectives of theirs
  std::vector<std::pair<std::uint32_t, TraceRow>> rows;  // by item
};

struct StreamState {
  std::uint32_t next = 0;  // place in its queue
  std::int32_t step = 0;
  Seconds end = 0;                // of its latest item
  Seconds issued = 0, ready = 0;  // of the next item, while it waits for others
  Seconds waited =
      0;  // when the host went on after the op that it waited for last, before the next item
  bool gathered = false;  // waits for the other members, or for the interconnect
};

struct RankState {
  const StreamList* list = nullptr;
  const WorkValue* works = nullptr;  // its row of the WorkTable
  bool records = false;              // rows are kept
  IndexedArray<StreamId, StreamState, kNumStreams> streams;
  std::vector<Seconds> marks;      // [kept step][mark]
  std::vector<StreamSet> awaited;  // [kept step][mark]: streams that wait for it
  std::array<StepAccount, kKeptSteps> accounts;
  std::int32_t entered = -1;  // latest step that one of its streams is in
  IdleTime idle;
  Flop flop = 0;
  TimeClasses time;  // of the step that was completed last
  std::vector<TraceRow> rows;
  Seconds main_before = 0, main_end = 0;

  /// How long a kernel takes that is an item of its own.
  Seconds duration(const StreamItem& item) const {
    return item.body < 0 ? item.op->duration : item.op->duration * works[item.body].time;
  }
  Flop work(const StreamItem& item) const {
    return item.body < 0 ? item.op->flop : item.op->flop * works[item.body].flop;
  }

  StepAccount& account(std::int32_t step) { return accounts[kept_step(step)]; }
  std::size_t mark_index(std::int32_t step, std::uint32_t mark) const {
    return kept_step(step) * list->num_marks + mark;
  }
};

}  // namespace trainyard
