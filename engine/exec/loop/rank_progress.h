// How far the streams of all ranks have come while a Program runs (program_run.h), and what a
// stream does by itself: kernels, frees, the end of an op. What ends reaches marks, and streams
// that wait for those go on.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/loop/rank_state.h"
#include "engine/exec/loop/run_plan.h"

namespace trainyard {

/// One stream of one rank.
struct Cursor {
  FoldClassId rank;
  StreamId stream;
};

class RankProgress {
 public:
  /// `plan` outlives the object. `slows`: kernels slow down, so that an op may take longer than
  /// alone.
  RankProgress(const RunPlan& plan, bool slows, Seconds start);

  /// All ranks at the start of their first step.
  void begin();
  /// The first stream of a rank to begin a step clears what was kept of an older one.
  void enter(FoldClassId rank, std::int32_t step);

  /// False: the stream waits for a mark. `ready`: no earlier than the marks that its item waits
  /// for.
  bool reached(Cursor cursor, RankState& state, const StreamState& stream, const StreamItem& item,
               Seconds& ready) const;
  /// By how much the host is later at the item than its launches alone would have it.
  Seconds host_delay(const RankState& state, const StreamState& stream,
                     const StreamItem& item) const;
  /// The mark of a step; runnable() gets the streams that wait for it.
  void reach(RankState& state, std::int32_t step, std::uint32_t mark, Seconds time);
  /// All marks of an item.
  void reach_all(RankState& state, const StreamState& stream, const StreamItem& item, Seconds end);

  /// A run of kernels that is issued from `issued` on.
  void run_kernels(RankState& state, StreamState& stream, const StreamItem& item, Seconds issued,
                   Seconds ready);
  void free(RankState& state, StreamState& stream, const StreamItem& item, Seconds issued,
            Seconds ready);
  /// The row of op `k` of the stream's item, where the rank keeps rows. What a rank does is grouped
  /// alike whether it does or not, so that times are the same.
  static void record(RankState& state, const StreamState& stream, const StreamItem& item,
                     std::uint32_t k, Seconds issued, Seconds ready, Seconds start, Seconds end);
  /// An op that is an item of its own has ended. The caller goes on to the next item.
  void finish(RankState& state, StreamState& stream, const StreamItem& item, Seconds start,
              Seconds end);

  /// A gap of the main stream before its next item. As long as the host waits for an op itself,
  /// nothing that it does holds up the device: that part counts as issued.
  void note_gap(StepAccount& account, const StreamState& stream, const RankState& state,
                Seconds begin, Seconds end, Seconds issued);
  void note_event(StepAccount& account, StreamId s, const TimedEvent& event) {
    account.events[s].push_back(event, unused_events_);
  }
  /// A step of the rank is over: the idle time of it, whose events are given back.
  void settle(RankState& state, StepAccount& account);

  /// Ranks that nothing ties together once a step may still be drifting apart when the latest end
  /// has settled already. `period`: of the latest step.
  bool all_keep_pace(Seconds period) const;

  RankState& rank(FoldClassId r) { return ranks_[r]; }
  Indexed<FoldClassId, RankState>& ranks() { return ranks_; }
  const Indexed<FoldClassId, RankState>& ranks() const { return ranks_; }
  const StreamItem& item_at(Cursor cursor);
  /// Streams that may go on, the next one last.
  std::vector<Cursor>& runnable() { return runnable_; }
  /// Names of communication, by TimedEvent::kind.
  const std::vector<std::string>& kinds() const { return kinds_; }
  Seconds start() const { return start_; }
  void count_events(std::int64_t events) { num_events_ += events; }
  std::int64_t num_events() const { return num_events_; }

 private:
  void begin_rank(FoldClassId r);
  /// A gap of the main stream, or a message of this rank.
  void note(StepAccount& account, const StreamState& stream, const RankState& state, StreamId s,
            std::int32_t kind, Seconds begin, Seconds end, Seconds issued);
  static void record_run(RankState& state, const StreamState& stream, const StreamItem& item,
                         Seconds host, Seconds start);
  void run_held_up(RankState& state, StreamState& stream, const StreamItem& item, Seconds host,
                   Seconds start);

  const RunPlan& plan_;
  bool slows_;
  Seconds start_;
  std::vector<std::string> kinds_;
  Indexed<FoldClassId, RankState> ranks_;
  std::vector<Cursor> runnable_;
  EventBlocks unused_events_;
  std::int64_t num_events_ = 0;
};

// Once per item or oftener.

inline bool RankProgress::reached(Cursor cursor, RankState& state, const StreamState& stream,
                                  const StreamItem& item, Seconds& ready) const {
  const MarkRef* wait = state.list->waits.data() + item.first_wait;
  for (std::uint32_t i = 0; i < item.num_waits; ++i) {
    const std::size_t at =
        state.mark_index(stream.step - static_cast<std::int32_t>(wait[i] & 1U), wait[i] >> 1U);
    const Seconds time = state.marks[at];
    if (std::isnan(time)) {
      state.awaited[at] |= stream_bit(cursor.stream);
      return false;
    }
    ready = std::max(ready, time);
  }
  return true;
}

inline Seconds RankProgress::host_delay(const RankState& state, const StreamState& stream,
                                        const StreamItem& item) const {
  if (item.host < 0) return start_;
  return state.marks[state.mark_index(stream.step - (item.host & 1),
                                      static_cast<std::uint32_t>(item.host >> 1))];
}

inline void RankProgress::reach(RankState& state, std::int32_t step, std::uint32_t mark,
                                Seconds time) {
  const std::size_t at = state.mark_index(step, mark);
  state.marks[at] = time;
  StreamSet waiting = state.awaited[at];
  if (waiting == 0) return;
  state.awaited[at] = 0;
  const FoldClassId r(&state - ranks_.data());
  for (std::uint8_t s = 0; waiting != 0; ++s, waiting = static_cast<StreamSet>(waiting >> 1U)) {
    if ((waiting & 1U) != 0) runnable_.push_back({r, StreamId{s}});
  }
}

inline void RankProgress::reach_all(RankState& state, const StreamState& stream,
                                    const StreamItem& item, Seconds end) {
  const GivenMark* given = state.list->given.data() + item.first_given;
  for (std::uint32_t i = 0; i < item.num_given; ++i) {
    reach(state, stream.step, given[i].mark, end);
  }
}

inline const StreamItem& RankProgress::item_at(Cursor cursor) {
  const RankState& state = rank(cursor.rank);
  return state.list->items[state.list->streams[cursor.stream][state.streams[cursor.stream].next]];
}

}  // namespace trainyard
