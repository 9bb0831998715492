#include "engine/exec/program_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/rank_state.h"
#include "engine/exec/slowdown_clock.h"

namespace trainyard {

namespace {

/// One stream of one rank.
struct Cursor {
  std::int32_t rank;
  std::uint8_t stream;
};

/// Where the members of a channel gather.
struct Gathering {
  std::vector<Cursor> arrived;
  Seconds ready = 0;
  std::vector<const std::vector<BodyMap>*> maps;  // [body]; null: not needed so far
};

class Run {
 public:
  /// `clock`: the interconnect too, where kernels slow down; else null.
  Run(const RunPlan& plan, const RunOptions& options, Interconnect* interconnect, SlowdownClock* clock)
      : plan_(plan), options_(options), interconnect_(interconnect), clock_(clock),
        kinds_(exposed_kinds(*plan.program, plan.lanes)) {}

  RunResult run(Seconds start) {
    start_ = before_ = start;
    num_steps_ = options_.compute_only ? 1 : std::max(1, options_.max_steps);
    ahead_ = interconnect_ == nullptr ? 0 : 1;
    gate_ = std::min(num_steps_ - 1, ahead_);
    gatherings_.resize(plan_.folds.channels.size());
    for (auto& sent : sent_) sent.assign(plan_.times.size(), 0);
    ranks_.resize(plan_.folds.classes.size());
    ranks_left_.fill(static_cast<std::int64_t>(ranks_.size()));
    for (std::size_t r = ranks_.size(); r-- > 0;) begin_rank(static_cast<std::int32_t>(r));
    while (!finished_) {
      while (!runnable_.empty() && !finished_) {
        const Cursor cursor = runnable_.back();
        runnable_.pop_back();
        advance(cursor);
      }
      if (finished_) break;
      check(interconnect_ != nullptr && num_under_way_ > 0, "ranks wait for each other; verify() should have said so");
      endings_.clear();
      interconnect_->next(endings_, std::numeric_limits<double>::infinity());
      check(!endings_.empty(), "something is under way, and nothing of it ends");
      for (const auto& ending : endings_) end_message(ending);
    }
    RunResult out;
    for (std::size_t r = 0; r < ranks_.size(); ++r) trace_.ranks.push_back(report(r));
    trace_.sources = plan_.times.sources();
    out.trace = std::move(trace_);
    out.sent = std::move(sent_[static_cast<std::size_t>(completed_) % kKeptSteps]);
    return out;
  }

 private:
  RankState& rank(std::int32_t r) { return ranks_[static_cast<std::size_t>(r)]; }

  void begin_rank(std::int32_t r) {
    RankState& state = rank(r);
    state.list = &plan_.lists[plan_.list_of[static_cast<std::size_t>(r)]];
    state.marks.assign(kKeptSteps * state.list->num_marks, start_);
    state.awaited.assign(kKeptSteps * state.list->num_marks, 0);
    state.idle = IdleTime(kinds_.size());
    state.main_end = start_;
    bool any = false;
    for (std::size_t s = kNumStreams; s-- > 0;) {
      state.streams[s].end = start_;
      if (state.list->streams[s].empty()) continue;
      any = true;
      runnable_.push_back({r, static_cast<std::uint8_t>(s)});
    }
    check(any, "a rank has something to do");
    enter(r, 0);
  }

  /// The first stream of a rank to begin a step clears what was kept of an older one.
  void enter(std::int32_t r, std::int32_t step) {
    RankState& state = rank(r);
    if (state.entered >= step) return;
    state.entered = step;
    const std::size_t first = state.mark_index(step, 0);
    std::fill_n(state.marks.begin() + static_cast<std::ptrdiff_t>(first), state.list->num_marks, kUnknown);
    std::fill_n(state.awaited.begin() + static_cast<std::ptrdiff_t>(first), state.list->num_marks, StreamSet{0});
    StepAccount& account = state.account(step);
    account.streams_left = 0;
    for (const auto& queue : state.list->streams) account.streams_left += queue.empty() ? 0 : 1;
    account.compute = account.optimizer = account.end = 0;
    account.flop = 0;
    account.main_before = account.main_end = state.streams[kMainStream].end;
    for (std::size_t s = 0; s < kNumStreams; ++s) {
      account.events[s].clear();
      if (step > 0) account.events[s].reserve(state.account(step - 1).events[s].size());
    }
    account.open_events.clear();
    account.exposed.assign(kinds_.size(), 0);
    account.rows.clear();
  }

  /// Items of one stream, until it has to wait.
  void advance(Cursor cursor) {
    RankState& state = rank(cursor.rank);
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
      Seconds ready = item.kind == ItemKind::kBody ? start_ : stream.end;
      if (!reached(cursor, state, stream, item, ready)) return;
      const Seconds delay = host_delay(state, stream, item);
      const Seconds launches = static_cast<double>(stream.step) * state.list->launch;
      const Seconds host = delay + (launches + item.issued);
      stream.waited = item.host < 0 ? start_ : delay + launches + issued_at_wait(state, item);
      switch (item.kind) {
        case ItemKind::kRun: run_kernels(state, stream, item, host, ready); break;
        case ItemKind::kFree: free(state, stream, item, host, ready); break;
        case ItemKind::kBody:
          stream.issued = host;
          stream.ready = ready;
          meet_in_body(cursor, state, stream, item);
          return;
        case ItemKind::kFollow:
          stream.end = ready;
          give_end(state, stream, item, ready);
          break;
        case ItemKind::kKernel:
          stream.issued = host;
          stream.ready = std::max(ready, host);
          if (clock_ != nullptr && item.op->duration > 0) {
            begin_kernel(cursor, stream, *item.op);
            return;
          }
          finish(state, stream, item, stream.ready, stream.ready + item.op->duration);
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
    if (cursor.stream == kMainStream) account.main_end = stream.end;
    if (--account.streams_left == 0) end_step_of(cursor.rank, step);
    if (finished_) return false;
    if (stream.step > gate_) {
      parked_.push_back(cursor);
      return false;
    }
    enter(cursor.rank, stream.step);
    if (cursor.stream == kMainStream) state.account(stream.step).main_before = stream.end;
    return true;
  }

  bool reached(Cursor cursor, RankState& state, const StreamState& stream, const StreamItem& item, Seconds& ready) {
    const MarkRef* wait = state.list->waits.data() + item.first_wait;
    for (std::uint32_t i = 0; i < item.num_waits; ++i) {
      const std::size_t at = state.mark_index(stream.step - static_cast<std::int32_t>(wait[i] & 1U), wait[i] >> 1U);
      const Seconds time = state.marks[at];
      if (std::isnan(time)) {
        state.awaited[at] |= static_cast<StreamSet>(1U << cursor.stream);
        return false;
      }
      ready = std::max(ready, time);
    }
    return true;
  }

  Seconds host_delay(const RankState& state, const StreamState& stream, const StreamItem& item) const {
    if (item.host < 0) return start_;
    return state.marks[state.mark_index(stream.step - (item.host & 1), static_cast<std::uint32_t>(item.host >> 1))];
  }

  /// Launches from the begin of the item's step to the op that the host waited for before it; less than
  /// 0 where that was in the step before.
  static Seconds issued_at_wait(const RankState& state, const StreamItem& item) {
    const StreamList& list = *state.list;
    const std::size_t first = list.num_marks - list.issued_at_wait.size();  // marks of the host's delay are the last
    const Seconds issued = list.issued_at_wait[(static_cast<std::size_t>(item.host) >> 1U) - first];
    return (item.host & 1) == 0 ? issued : issued - list.launch;
  }

  void reach(RankState& state, std::int32_t step, std::uint32_t mark, Seconds time) {
    const std::size_t at = state.mark_index(step, mark);
    state.marks[at] = time;
    StreamSet waiting = state.awaited[at];
    if (waiting == 0) return;
    state.awaited[at] = 0;
    const auto r = static_cast<std::int32_t>(&state - ranks_.data());
    for (std::uint8_t s = 0; waiting != 0; ++s, waiting = static_cast<StreamSet>(waiting >> 1U)) {
      if ((waiting & 1U) != 0) runnable_.push_back({r, s});
    }
  }

  /// A gap of the main stream before its next item. As long as the host waits for an op itself, nothing
  /// that it does holds up the device: that part counts as issued.
  static void note_gap(StepAccount& account, const StreamState& stream, const RankState& state,
                       Seconds end, Seconds issued) {
    note_gap(account, stream, state, stream.end, end, issued);
  }
  static void note_gap(StepAccount& account, const StreamState& stream, const RankState& state,
                       Seconds begin, Seconds end, Seconds issued) {
    const Seconds waited = std::clamp(stream.waited, begin, end);
    if (waited > begin) note(account, stream, state, kMainStream, -1, begin, waited, begin);
    if (end > waited) note(account, stream, state, kMainStream, -1, waited, end, issued);
  }

  /// A gap of the main stream, or a message of this rank.
  static void note(StepAccount& account, const StreamState& stream, const RankState& state, std::size_t s,
                   std::int32_t kind, Seconds begin, Seconds end, Seconds issued) {
    const bool first = s == static_cast<std::size_t>(StreamId::kTp);
    account.events[s].push_back({state.list->streams[s][stream.next], kind, first, begin, end, issued});
  }

  void run_kernels(RankState& state, StreamState& stream, const StreamItem& item, Seconds issued, Seconds ready) {
    const TimedRun& run = *item.run;
    StepAccount& account = state.account(stream.step);
    const Seconds start = std::max(ready, issued);
    const Seconds host = issued - run.first_launch;
    const GivenMark* given = state.list->given.data() + item.first_given;
    (item.op->update ? account.optimizer : account.compute) += run.duration;
    account.flop += run.flop;
    trace_.num_events += run.num_events;
    if (host + run.slack <= start) {
      if (start > stream.end) note_gap(account, stream, state, start, issued);
      stream.end = start + run.duration;
      for (std::uint32_t i = 0; i < item.num_given; ++i) {
        reach(state, stream.step, given[i].mark, given[i].offset < 0 ? stream.end : start + given[i].offset);
      }
    } else {  // the host holds up some of them
      Seconds launched = host;
      std::uint32_t mark = 0;
      for (std::uint32_t k = 0; k < run.num_ops; ++k) {
        const TimedOp& op = item.op[k];
        if (op.kind == TimedKind::kKernel) {
          launched += op.launch;
          const Seconds begin = std::max(k == 0 ? start : stream.end, launched);
          if (begin > stream.end) note_gap(account, stream, state, begin, launched);
          stream.end = begin + op.duration;
        }
        while (mark < item.num_given && given[mark].op == k) reach(state, stream.step, given[mark++].mark, stream.end);
      }
      while (mark < item.num_given) reach(state, stream.step, given[mark++].mark, stream.end);
    }
    account.end = std::max(account.end, stream.end);
  }

  void free(RankState& state, StreamState& stream, const StreamItem& item, Seconds host, Seconds ready) {
    StepAccount& account = state.account(stream.step);
    if (ready > stream.end) note_gap(account, stream, state, ready, host);
    stream.end = ready;
    give_end(state, stream, item, ready);
  }

  void give_end(RankState& state, const StreamState& stream, const StreamItem& item, Seconds end) {
    const GivenMark* given = state.list->given.data() + item.first_given;
    for (std::uint32_t i = 0; i < item.num_given; ++i) reach(state, stream.step, given[i].mark, end);
  }

  /// An op that is an item of its own. The caller goes on to the next item.
  void finish(RankState& state, StreamState& stream, const StreamItem& item, Seconds start, Seconds end) {
    StepAccount& account = state.account(stream.step);
    const TimedOp& op = *item.op;
    const auto s = static_cast<std::size_t>(item.stream);
    if (s == kMainStream) {
      if (start > stream.end) note_gap(account, stream, state, start, stream.issued);
      (op.update ? account.optimizer : account.compute) += clock_ == nullptr ? op.duration : end - start;
    }
    if (op.exposed_kind >= 0 && end > start) note(account, stream, state, s, op.exposed_kind, start, end, 0);
    stream.end = end;
    if (item.gives_host >= 0) {
      const Seconds delay = host_delay(state, stream, item);
      const Seconds launches = static_cast<double>(stream.step) * state.list->launch + item.issued;
      reach(state, stream.step, static_cast<std::uint32_t>(item.gives_host), std::max(delay, end - launches));
    }
    give_end(state, stream, item, end);
    account.end = std::max(account.end, end);
    account.flop += op.flop;
    ++trace_.num_events;
    if (plan_.records[static_cast<std::size_t>(&state - ranks_.data())]) {
      account.rows.emplace_back(state.list->streams[s][stream.next],
                                TraceRow{stream.step, item.segment, item.mb, item.op_index, stream.issued, stream.ready, start, end});
    }
  }

  /// True: the message has ended, and the stream is past it. False: the stream waits.
  bool communicate(Cursor cursor, RankState& state, StreamState& stream, const StreamItem& item) {
    const std::int32_t message = item.op->message;
    const auto lane = static_cast<std::size_t>(plan_.lanes.messages[static_cast<std::size_t>(message)].lane);
    const FoldClass& own = plan_.folds.classes[static_cast<std::size_t>(cursor.rank)];
    const ChannelId channel = item.kind == ItemKind::kReceive ? own.incoming[lane] : own.channel[lane];
    const auto c = static_cast<std::size_t>(channel);
    const bool flows = clock_ != nullptr || (!plan_.contends.empty() && plan_.contends[c]);
    const std::int32_t meeting = plan_.folds.channels[c].num_classes;
    if (meeting == 1 && !flows) {
      count(channel, message, stream.step);
      finish(state, stream, item, stream.ready, stream.ready + plan_.times.of(channel, message).total);
      ++stream.next;
      return true;
    }
    Gathering& place = gatherings_[c];
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
  void meet_in_body(Cursor cursor, RankState& state, StreamState& stream, const StreamItem& item) {
    const auto lane = static_cast<std::size_t>(plan_.lanes.messages[static_cast<std::size_t>(item.op->message)].lane);
    const ChannelId channel = plan_.folds.classes[static_cast<std::size_t>(cursor.rank)].channel[lane];
    Gathering& place = gatherings_[static_cast<std::size_t>(channel)];
    stream.gathered = true;
    place.arrived.push_back(cursor);
    if (static_cast<std::int32_t>(place.arrived.size()) < plan_.folds.channels[static_cast<std::size_t>(channel)].num_classes) return;
    std::sort(place.arrived.begin(), place.arrived.end(), [](Cursor a, Cursor b) { return a.rank < b.rank; });
    const TimedBody& body = state.list->bodies[static_cast<std::size_t>(item.body)];
    for (const auto& [message, times] : state.list->body_messages[static_cast<std::size_t>(item.body)]) {
      count(channel, message, stream.step, times);
    }
    const std::vector<BodyMap>& maps = body_maps(channel, place, item.body, body);
    Seconds start = start_;  // of the first collective
    for (const Cursor member : place.arrived) {
      const StreamState& its = rank(member.rank).streams[kMainStream];
      start = std::max({start, its.ready, its.issued + item_at(member).op->launch});
    }
    bool constant = true;
    for (std::size_t i = 0; i < maps.size() && constant; ++i) {
      const StreamState& its = rank(place.arrived[i].rank).streams[kMainStream];
      const BodyCourse& course = maps[i].course;
      constant = its.issued + course.slack <= start &&
                 (body.main_follows ? its.end <= start + course.first_kernel : its.end == start) &&
                 // Else the gap before the first kernel is the host's in part, which depends on the ops in it.
                 (its.issued + course.first_launch <= its.end || its.end == start + course.first_kernel);
    }
    if (constant) {
      for (std::size_t i = 0; i < maps.size(); ++i) pass_mapped(place.arrived[i], body, maps[i], start);
    } else {
      entries_.clear();
      for (const Cursor member : place.arrived) {
        const StreamState& its = rank(member.rank).streams[kMainStream];
        entries_.push_back({item_at(member).op, its.ready, its.end, its.issued});
      }
      const auto courses = time_body(body, entries_, [&](std::int32_t message) { return plan_.times.of(channel, message).total; });
      for (std::size_t i = 0; i < courses.size(); ++i) pass_timed(place.arrived[i], courses[i]);
    }
    for (const Cursor member : place.arrived) runnable_.push_back(member);
    place.arrived.clear();
  }

  const StreamItem& item_at(Cursor cursor) {
    RankState& state = rank(cursor.rank);
    return state.list->items[state.list->streams[cursor.stream][state.streams[cursor.stream].next]];
  }

  /// Of the body that begins where the members are, one per member.
  const std::vector<BodyMap>& body_maps(ChannelId channel, Gathering& place, std::int32_t number, const TimedBody& body) {
    if (place.maps.size() <= static_cast<std::size_t>(number)) place.maps.resize(static_cast<std::size_t>(number) + 1, nullptr);
    const std::vector<BodyMap>*& known = place.maps[static_cast<std::size_t>(number)];
    if (known != nullptr) return *known;
    const GroupLayout& layout = plan_.folds.channels[static_cast<std::size_t>(channel)].layout;
    std::vector<std::int64_t> key = {layout.ranks, layout.nodes, layout.ranks_per_node, layout.leaves, layout.nics,
                                     std::bit_cast<std::int64_t>(layout.fabric_ring),
                                     std::bit_cast<std::int64_t>(layout.fabric_spread)};
    entries_.clear();
    for (const Cursor member : place.arrived) {
      key.push_back(static_cast<std::int64_t>(plan_.list_of[static_cast<std::size_t>(member.rank)]));
      key.push_back(item_at(member).body);
      constexpr Seconds kLongAgo = -1e30;
      entries_.push_back({item_at(member).op, 0, body.main_follows ? kLongAgo : 0, kLongAgo});
    }
    const auto [it, fresh] = all_maps_.try_emplace(std::move(key));
    if (fresh) {
      it->second = map_body(time_body(body, entries_, [&](std::int32_t message) { return plan_.times.of(channel, message).total; }),
                            kinds_.size());
    }
    known = &it->second;
    return *known;
  }

  void pass_mapped(Cursor member, const TimedBody& body, const BodyMap& map, Seconds start) {
    RankState& state = rank(member.rank);
    StreamState& stream = state.streams[kMainStream];
    const StreamItem& item = item_at(member);
    const BodyCourse& course = map.course;
    StepAccount& account = state.account(stream.step);
    const std::uint32_t at = state.list->streams[kMainStream][stream.next];
    const Seconds begin = start + course.first_kernel;
    const Seconds entry = stream.end;
    if (begin > entry) note_gap(account, stream, state, begin, stream.issued + course.first_launch);
    const bool first = body.stream == StreamId::kTp;
    for (const BodyEvent& event : map.reaching) {
      account.events[kMainStream].push_back({at, event.kind, first, start + event.begin, start + event.end, 0});
    }
    for (const BodyEvent& event : map.open) {
      account.open_events.push_back({at, -1, false, start + event.begin, start + event.end, stream.issued + event.issued});
    }
    for (const auto& [kind, seconds] : map.exposed) account.exposed[static_cast<std::size_t>(kind)] += seconds;
    pass_body(state, stream, course, start + course.main, start + course.other);
    const GivenMark* given = state.list->given.data() + item.first_given;
    for (std::uint32_t i = 0; i < item.num_given; ++i) {
      Seconds end = stream.end;
      if (given[i].op < body.num_ops) {
        end = start + course.op_end[given[i].op];
        if (item.op[given[i].op].kind != TimedKind::kCollective) end = std::max(end, entry);
      }
      reach(state, stream.step, given[i].mark, end);
    }
    ++stream.next;
  }

  void pass_timed(Cursor member, const BodyCourse& course) {
    RankState& state = rank(member.rank);
    StreamState& stream = state.streams[kMainStream];
    const StreamItem& item = item_at(member);
    StepAccount& account = state.account(stream.step);
    const std::uint32_t at = state.list->streams[kMainStream][stream.next];
    const bool first = state.list->bodies[static_cast<std::size_t>(item.body)].stream == StreamId::kTp;
    for (const BodyEvent& event : course.events) {
      if (event.kind < 0) {
        note_gap(account, stream, state, event.begin, event.end, stream.issued + event.issued);
      } else {
        account.events[kMainStream].push_back({at, event.kind, first, event.begin, event.end, 0});
      }
    }
    pass_body(state, stream, course, course.main, course.other);
    const GivenMark* given = state.list->given.data() + item.first_given;
    for (std::uint32_t i = 0; i < item.num_given; ++i) {
      reach(state, stream.step, given[i].mark, given[i].op < course.op_end.size() ? course.op_end[given[i].op] : stream.end);
    }
    ++stream.next;
  }

  void pass_body(RankState& state, StreamState& stream, const BodyCourse& course, Seconds main, Seconds other) {
    StepAccount& account = state.account(stream.step);
    account.compute += course.compute;
    account.flop += course.flop;
    account.end = std::max({account.end, main, other});
    trace_.num_events += course.num_events;
    stream.end = main;
    stream.gathered = false;
  }

  void count(ChannelId channel, std::int32_t message, std::int32_t step, std::int64_t times = 1) {
    auto& sent = sent_[static_cast<std::size_t>(step) % kKeptSteps];
    sent[plan_.times.index(channel, message)] += times;
  }

  void pass_message(Cursor member, Seconds start, Seconds end) {
    RankState& state = rank(member.rank);
    StreamState& stream = state.streams[member.stream];
    stream.gathered = false;
    finish(state, stream, state.list->items[state.list->streams[member.stream][stream.next]], start, end);
    ++stream.next;
    runnable_.push_back(member);
  }

  struct UnderWay {
    std::vector<Cursor> members;
    Seconds start = 0;
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

  void begin_kernel(Cursor cursor, StreamState& stream, const TimedOp& op) {
    const std::int32_t call = new_call();
    UnderWay& entry = under_way_[static_cast<std::size_t>(call)];
    entry.start = stream.ready;
    entry.members.assign(1, cursor);
    stream.gathered = true;
    clock_->start_kernel(call, cursor.rank, op.duration, stream.ready);
  }

  void under_way(ChannelId channel, std::int32_t message, Gathering& place) {
    const std::int32_t call = new_call();
    UnderWay& entry = under_way_[static_cast<std::size_t>(call)];
    entry.start = place.ready;
    entry.members.swap(place.arrived);
    place.arrived.clear();
    interconnect_->start(call, channel, message, entry.start);
  }

  void end_message(const Interconnect::Ending& ending) {
    UnderWay& entry = under_way_[static_cast<std::size_t>(ending.call)];
    std::erase_if(entry.members, [&](const Cursor member) {
      const std::int64_t own = plan_.folds.classes[static_cast<std::size_t>(member.rank)].rank;
      if (ending.rank >= 0 && own != ending.rank) return false;
      pass_message(member, entry.start, ending.end);
      return true;
    });
    if (!entry.members.empty()) return;
    --num_under_way_;
    free_calls_.push_back(ending.call);
  }

  void end_step_of(std::int32_t r, std::int32_t step) {
    RankState& state = rank(r);
    StepAccount& account = state.account(step);
    state.time = {};
    state.time.compute = account.compute;
    state.time.optimizer = account.optimizer;
    state.idle.settle(account, kinds_, state.time);
    state.flop = account.flop;
    state.main_before = account.main_before;
    state.main_end = account.main_end;
    std::stable_sort(account.rows.begin(), account.rows.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    state.rows.clear();
    for (auto& [item, row] : account.rows) state.rows.push_back(row);
    Seconds& end = step_ends_[static_cast<std::size_t>(step) % kKeptSteps];
    std::int64_t& left = ranks_left_[static_cast<std::size_t>(step) % kKeptSteps];
    end = std::max(end, account.end);
    if (--left > 0) return;
    left = static_cast<std::int64_t>(ranks_.size());
    end_step(step, std::exchange(end, 0));
  }

  void end_step(std::int32_t step, Seconds end) {
    completed_ = step;
    if (interconnect_ != nullptr) interconnect_->end_step();
    trace_.step_ends.push_back(end);
    const Seconds last_period = trace_.period;
    trace_.period = end - before_;
    before_ = end;
    trace_.steady = step > 0 && std::abs(trace_.period - last_period) <= 1e-9 * trace_.period && every_rank_keeps_pace();
    finished_ = trace_.steady || step + 1 == num_steps_;
    if (finished_) return;
    gate_ = std::min(num_steps_ - 1, step + 1 + ahead_);
    auto& sent = sent_[static_cast<std::size_t>(gate_) % kKeptSteps];
    if (gate_ == step + 1 + ahead_) std::fill(sent.begin(), sent.end(), 0);
    std::erase_if(parked_, [&](const Cursor cursor) {
      StreamState& stream = rank(cursor.rank).streams[cursor.stream];
      if (stream.step > gate_) return false;
      enter(cursor.rank, stream.step);
      if (cursor.stream == kMainStream) rank(cursor.rank).account(stream.step).main_before = stream.end;
      runnable_.push_back(cursor);
      return true;
    });
  }

  /// Ranks that nothing ties together once a step may still be drifting apart when the latest end has
  /// settled already.
  bool every_rank_keeps_pace() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankState& state) {
      return std::abs(state.main_end - state.main_before - trace_.period) <= 1e-9 * trace_.period;
    });
  }

  RankTrace report(std::size_t r) {
    RankState& state = ranks_[r];
    RankTrace out;
    out.rank = plan_.folds.classes[r].rank;
    out.multiplicity = plan_.folds.classes[r].multiplicity;
    out.list = plan_.folds.classes[r].list;
    out.executed_flop = state.flop;
    out.time = state.time;
    state.idle.settle_rest(state.main_end, trace_.period - out.time.total(), kinds_, out.time);
    out.rows = std::move(state.rows);
    return out;
  }

  const RunPlan& plan_;
  const RunOptions& options_;
  Interconnect* interconnect_;
  SlowdownClock* clock_;
  std::vector<std::string> kinds_;
  std::vector<RankState> ranks_;          // [fold class]
  std::vector<Gathering> gatherings_;     // [channel]
  std::map<std::vector<std::int64_t>, std::vector<BodyMap>> all_maps_;  // by layout, lists and bodies of the members
  std::vector<BodyEntry> entries_;
  std::vector<Cursor> runnable_;
  std::vector<Cursor> parked_;            // wait for steps to be completed
  std::vector<UnderWay> under_way_;       // by number of the call
  std::vector<std::int32_t> free_calls_;
  std::vector<Interconnect::Ending> endings_;
  std::int64_t num_under_way_ = 0;
  std::array<std::vector<std::int64_t>, kKeptSteps> sent_;  // messages of each step
  std::array<Seconds, kKeptSteps> step_ends_{};
  std::array<std::int64_t, kKeptSteps> ranks_left_{};
  Seconds start_ = 0, before_ = 0;
  int num_steps_ = 1;
  std::int32_t ahead_ = 0;       // steps that a stream may be ahead of the slowest rank
  std::int32_t gate_ = 0;        // latest step that may be begun
  std::int32_t completed_ = 0;
  bool finished_ = false;
  Trace trace_;
};

}  // namespace

RunResult run_plan(const RunPlan& plan, const RunOptions& options, Seconds start, Interconnect* interconnect) {
  if (!plan.slowdown.any()) return Run(plan, options, interconnect, nullptr).run(start);
  SlowdownClock clock(plan, interconnect);
  return Run(plan, options, &clock, &clock).run(start);
}

}  // namespace trainyard
