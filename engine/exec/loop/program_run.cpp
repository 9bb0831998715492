#include "engine/exec/loop/program_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/bodies/joint_bodies.h"
#include "engine/exec/loop/rank_progress.h"
#include "engine/exec/loop/slowdown_clock.h"
#include "engine/exec/loop/slowed_bodies.h"

namespace trainyard {

namespace {

/// Where the members of a channel gather.
struct Gathering {
  std::vector<Cursor> arrived;
  Seconds ready = 0;
};

class StepLoop {
 public:
  /// `clock`: the interconnect too, where kernels slow down; else null.
  StepLoop(const RunPlan& plan, const RunOptions& options, Seconds start,
           Interconnect* interconnect, SlowdownClock* clock)
      : plan_(plan),
        options_(options),
        interconnect_(interconnect),
        clock_(clock),
        progress_(plan, clock != nullptr, start),
        bodies_(plan, progress_),
        before_(start) {
    if (clock != nullptr) slowed_.emplace(plan, progress_, bodies_, *clock);
  }

  RunResult run() {
    num_steps_ = options_.compute_only ? 1 : std::max(1, options_.max_steps);
    ahead_ = interconnect_ == nullptr ? 0 : 1;
    gate_ = std::min(num_steps_ - 1, ahead_);
    gatherings_.resize(plan_.folds.channels.size());
    for (auto& sent : sent_) sent.assign(plan_.times.size(), 0);
    ranks_left_.fill(static_cast<std::int64_t>(progress_.ranks().size()));
    progress_.begin();
    std::vector<Cursor>& runnable = progress_.runnable();
    while (!finished_) {
      while (!runnable.empty() && !finished_) {
        const Cursor cursor = runnable.back();
        runnable.pop_back();
        advance(cursor);
      }
      if (finished_) break;
      check(interconnect_ != nullptr && num_under_way_ > 0,
            "ranks wait for each other; verify() should have said so");
      endings_.clear();
      interconnect_->next(endings_, std::numeric_limits<double>::infinity());
      check(!endings_.empty(), "something is under way, and nothing of it ends");
      for (const auto& ending : endings_) end_message(ending);
    }
    RunResult out;
    for (const FoldClassId r : progress_.ranks().keys()) trace_.ranks.push_back(report(r));
    trace_.num_events = progress_.num_events();
    trace_.sources = plan_.times.sources();
    out.trace = std::move(trace_);
    out.sent = std::move(sent_[kept_step(completed_)]);
    return out;
  }

 private:
  /// Items of one stream, until it has to wait.
  void advance(Cursor cursor) {
    RankState& state = progress_.rank(cursor.rank);
    StreamState& stream = state.streams[cursor.stream];
    const auto& queue = state.list->streams[cursor.stream];
    if (stream.gathered) return;
    for (;;) {
      if (stream.next == queue.size()) {
        if (!next_step(cursor, state, stream)) return;
      }
      const StreamItem* const items = state.list->items.data();
      const StreamItem& item = items[queue[stream.next]];
      if (stream.next + 1 < queue.size()) __builtin_prefetch(&items[queue[stream.next + 1]]);
      Seconds ready = item.kind == ItemKind::kBody ? progress_.start() : stream.end;
      if (!progress_.reached(cursor, state, stream, item, ready)) return;
      const Seconds delay = progress_.host_delay(state, stream, item);
      const Seconds launches = static_cast<double>(stream.step) * state.list->launch;
      const Seconds host = delay + (launches + item.issued);
      stream.waited =
          item.host < 0 ? progress_.start() : delay + launches + issued_at_wait(*state.list, item);
      switch (item.kind) {
        case ItemKind::kRun:
          if (clock_ != nullptr) {
            stream.issued = host - item.run->first_launch;
            stream.ready = ready;
            begin_slowed(cursor, item);
            return;
          }
          progress_.run_kernels(state, stream, item, host, ready);
          break;
        case ItemKind::kFree: progress_.free(state, stream, item, host, ready); break;
        case ItemKind::kBody:
          stream.issued = host;
          stream.ready = ready;
          if (clock_ != nullptr) {
            begin_slowed(cursor, item);
            return;
          }
          meet_in_body(cursor, stream, item);
          return;
        case ItemKind::kFollow:
          stream.end = ready;
          progress_.reach_all(state, stream, item, ready);
          break;
        case ItemKind::kKernel:
          stream.issued = host;
          stream.ready = std::max(ready, host);
          // What the host computes slows nothing on the device, and is not slowed.
          if (clock_ != nullptr && item.op->duration > 0 && cursor.stream == StreamId::kMain) {
            begin_kernel(cursor, stream, state.duration(item));
            return;
          }
          progress_.finish(state, stream, item, stream.ready, stream.ready + state.duration(item));
          break;
        default:
          stream.issued = host;
          stream.ready = std::max(ready, host);
          if (!communicate(cursor, state, stream, item)) return;
          continue;  // the item is finished
      }
      ++stream.next;
    }
  }

  /// False: the stream may not begin its next step yet.
  bool next_step(Cursor cursor, RankState& state, StreamState& stream) {
    const std::int32_t step = stream.step++;
    stream.next = 0;
    StepAccount& account = state.account(step);
    if (cursor.stream == StreamId::kMain) account.main_end = stream.end;
    if (--account.streams_left == 0) end_step_of(cursor.rank, step);
    if (finished_) return false;
    if (stream.step > gate_) {
      parked_.push_back(cursor);
      return false;
    }
    progress_.enter(cursor.rank, stream.step);
    if (cursor.stream == StreamId::kMain) state.account(stream.step).main_before = stream.end;
    return true;
  }

  /// True: the message has ended, and the stream is past it. False: the stream waits.
  bool communicate(Cursor cursor, RankState& state, StreamState& stream, const StreamItem& item) {
    const MessageId message = item.op->message;
    const LaneId lane = plan_.lanes.messages[message].lane;
    const FoldClass& own = plan_.folds.classes[cursor.rank];
    const ChannelId channel =
        item.kind == ItemKind::kReceive ? own.incoming[lane] : own.channel[lane];
    const bool flows = clock_ != nullptr || (!plan_.contends.empty() && plan_.contends[channel]);
    const std::int32_t meeting = plan_.folds.channels[channel].num_classes;
    if (meeting == 1 && !flows) {
      count(channel, message, stream.step);
      progress_.finish(state, stream, item, stream.ready,
                       stream.ready + plan_.times.of(channel, message).total);
      ++stream.next;
      return true;
    }
    Gathering& place = gatherings_[channel];
    place.ready = place.arrived.empty() ? stream.ready : std::max(place.ready, stream.ready);
    place.arrived.push_back(cursor);
    stream.gathered = true;
    if (static_cast<std::int32_t>(place.arrived.size()) < meeting) return false;
    count(channel, message, stream.step);
    if (flows) {
      under_way(channel, message, place);
      return false;
    }
    const Seconds start = place.ready;
    const Seconds end = start + plan_.times.of(channel, message).total;
    for (const Cursor member : place.arrived) pass_message(member, start, end);
    place.arrived.clear();
    return false;  // all members are runnable again, this one too
  }

  /// All members time their part of the body together, once the last has come.
  void meet_in_body(Cursor cursor, StreamState& stream, const StreamItem& item) {
    const LaneId lane = plan_.lanes.messages[item.op->message].lane;
    const ChannelId channel = plan_.folds.classes[cursor.rank].channel[lane];
    Gathering& place = gatherings_[channel];
    stream.gathered = true;
    place.arrived.push_back(cursor);
    if (static_cast<std::int32_t>(place.arrived.size()) < plan_.folds.channels[channel].num_classes)
      return;
    std::sort(place.arrived.begin(), place.arrived.end(),
              [](Cursor a, Cursor b) { return a.rank < b.rank; });
    // Bodies have numbers of their own in the lists of ranks with other lanes: the first rank's,
    // whoever came last.
    const Cursor first = place.arrived.front();
    const ListBodies& bodies = progress_.rank(first.rank).list->bodies;
    const std::int32_t number = progress_.item_at(first).body;
    count_body(first, channel, number);
    bodies_.pass(channel, place.arrived, number, bodies.all[number]);
    for (const Cursor member : place.arrived) progress_.runnable().push_back(member);
    place.arrived.clear();
  }

  void count_body(Cursor at, ChannelId channel, std::int32_t number) {
    const RankState& state = progress_.rank(at.rank);
    for (const auto& [message, times] : state.list->bodies.messages[number])
      count(channel, message, state.streams[at.stream].step, times);
  }

  void count(ChannelId channel, MessageId message, std::int32_t step, std::int64_t times = 1) {
    auto& sent = sent_[kept_step(step)];
    sent[plan_.times.index(channel, message)] += times;
  }

  void pass_message(Cursor member, Seconds start, Seconds end) {
    RankState& state = progress_.rank(member.rank);
    StreamState& stream = state.streams[member.stream];
    stream.gathered = false;
    const StreamItem& item = progress_.item_at(member);
    progress_.finish(state, stream, item, start, end);
    ++stream.next;
    progress_.runnable().push_back(member);
  }

  struct UnderWay {
    std::vector<Cursor> members;
    Seconds start = 0;
    bool is_body = false;  // slowed_bodies.h
  };

  std::int32_t new_call() {
    ++num_under_way_;
    if (free_calls_.empty()) {
      under_way_.emplace_back();
      return static_cast<std::int32_t>(under_way_.size() - 1);
    }
    const std::int32_t call = free_calls_.back();
    free_calls_.pop_back();
    return call;
  }

  void begin_kernel(Cursor cursor, StreamState& stream, Seconds duration) {
    const std::int32_t call = new_call();
    UnderWay& entry = under_way_[call];
    entry.start = stream.ready;
    entry.members.assign(1, cursor);
    entry.is_body = false;
    stream.gathered = true;
    clock_->start_kernel(call, cursor.rank, duration, stream.ready);
  }

  /// A run, or a body of a rank by itself (reusable_lanes()), where kernels slow down.
  void begin_slowed(Cursor cursor, const StreamItem& item) {
    ChannelId channel = kNoIndex;
    if (item.kind == ItemKind::kBody) {
      const LaneId lane = plan_.lanes.messages[item.op->message].lane;
      channel = plan_.folds.classes[cursor.rank].channel[lane];
      count_body(cursor, channel, item.body);
    }
    const std::int32_t call = new_call();
    under_way_[call].is_body = true;
    slowed_->begin(call, cursor, item, channel);
  }

  void under_way(ChannelId channel, MessageId message, Gathering& place) {
    const std::int32_t call = new_call();
    UnderWay& entry = under_way_[call];
    entry.start = place.ready;
    entry.members.swap(place.arrived);
    entry.is_body = false;
    place.arrived.clear();
    interconnect_->start(call, channel, message, entry.start);
  }

  void end_message(const Interconnect::Ending& ending) {
    UnderWay& entry = under_way_[ending.call];
    if (entry.is_body) {
      if (slowed_->end_part(ending)) end_call(ending.call);
      return;
    }
    std::erase_if(entry.members, [&](const Cursor member) {
      const std::int64_t own = plan_.folds.classes[member.rank].rank;
      if (ending.rank >= 0 && own != ending.rank) return false;
      pass_message(member, entry.start, ending.end);
      return true;
    });
    if (entry.members.empty()) end_call(ending.call);
  }

  void end_call(std::int32_t call) {
    --num_under_way_;
    free_calls_.push_back(call);
  }

  void end_step_of(FoldClassId r, std::int32_t step) {
    RankState& state = progress_.rank(r);
    StepAccount& account = state.account(step);
    state.time = {};
    state.time.compute = account.compute;
    state.time.optimizer = account.optimizer;
    progress_.settle(state, account);
    state.flop = account.flop;
    state.main_before = account.main_before;
    state.main_end = account.main_end;
    std::stable_sort(account.rows.begin(), account.rows.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    state.rows.clear();
    for (auto& [item, row] : account.rows) state.rows.push_back(row);
    Seconds& end = step_ends_[kept_step(step)];
    std::int64_t& left = ranks_left_[kept_step(step)];
    end = std::max(end, account.end);
    if (--left > 0) return;
    left = static_cast<std::int64_t>(progress_.ranks().size());
    end_step(step, std::exchange(end, 0));
  }

  void end_step(std::int32_t step, Seconds end) {
    completed_ = step;
    if (interconnect_ != nullptr) interconnect_->end_step();
    trace_.step_ends.push_back(end);
    const Seconds last_period = trace_.period;
    trace_.period = end - before_;
    before_ = end;
    trace_.steady = step > 0 && std::abs(trace_.period - last_period) <= 1e-9 * trace_.period &&
                    progress_.all_keep_pace(trace_.period);
    finished_ = trace_.steady || step + 1 == num_steps_;
    if (finished_) return;
    gate_ = std::min(num_steps_ - 1, step + 1 + ahead_);
    auto& sent = sent_[kept_step(gate_)];
    if (gate_ == step + 1 + ahead_) std::fill(sent.begin(), sent.end(), 0);
    std::erase_if(parked_, [&](const Cursor cursor) {
      StreamState& stream = progress_.rank(cursor.rank).streams[cursor.stream];
      if (stream.step > gate_) return false;
      progress_.enter(cursor.rank, stream.step);
      if (cursor.stream == StreamId::kMain)
        progress_.rank(cursor.rank).account(stream.step).main_before = stream.end;
      progress_.runnable().push_back(cursor);
      return true;
    });
  }

  RankTrace report(FoldClassId r) {
    RankState& state = progress_.ranks()[r];
    RankTrace out;
    out.rank = plan_.folds.classes[r].rank;
    out.multiplicity = plan_.folds.classes[r].multiplicity;
    out.list = plan_.folds.classes[r].list;
    out.executed_flop = state.flop;
    out.time = state.time;
    state.idle.settle_rest(state.main_end, trace_.period - out.time.total(), progress_.kinds(),
                           out.time);
    out.rows = std::move(state.rows);
    return out;
  }

  const RunPlan& plan_;
  const RunOptions& options_;
  Interconnect* interconnect_;
  SlowdownClock* clock_;
  RankProgress progress_;
  JointBodies bodies_;
  std::optional<SlowedBodies> slowed_;  // where kernels slow down
  Indexed<ChannelId, Gathering> gatherings_;
  std::vector<Cursor> parked_;                 // wait for steps to be completed
  Indexed<std::int32_t, UnderWay> under_way_;  // [call]
  std::vector<std::int32_t> free_calls_;
  std::vector<Interconnect::Ending> endings_;
  std::int64_t num_under_way_ = 0;
  std::array<std::vector<std::int64_t>, kKeptSteps> sent_;  // messages of each step
  std::array<Seconds, kKeptSteps> step_ends_{};
  std::array<std::int64_t, kKeptSteps> ranks_left_{};
  Seconds before_;  // end of the step before
  int num_steps_ = 1;
  std::int32_t ahead_ = 0;  // steps that a stream may be ahead of the slowest rank
  std::int32_t gate_ = 0;   // latest step that may be begun
  std::int32_t completed_ = 0;
  bool finished_ = false;
  Trace trace_;
};

}  // namespace

RunResult run_plan(const RunPlan& plan, const RunOptions& options, Seconds start,
                   Interconnect* interconnect) {
  if (!plan.slowdown.any()) return StepLoop(plan, options, start, interconnect, nullptr).run();
  SlowdownClock clock(plan, interconnect);
  return StepLoop(plan, options, start, &clock, &clock).run();
}

}  // namespace trainyard
