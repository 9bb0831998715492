#include "engine/exec/loop/rank_progress.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/exec/lists/exposed_kinds.h"
#include "engine/exec/lists/timed_program.h"

namespace trainyard {

RankProgress::RankProgress(const RunPlan& plan, bool slows, Seconds start)
    : plan_(plan),
      slows_(slows),
      start_(start),
      kinds_(exposed_kinds(*plan.program, plan.lanes)),
      ranks_(plan.folds.classes.size()) {
  check(std::in_range<std::int16_t>(kinds_.size()), "kinds of communication are few");
}

void RankProgress::begin() {
  for (std::size_t r = ranks_.size(); r-- > 0;) begin_rank(FoldClassId(r));
}

void RankProgress::begin_rank(FoldClassId r) {
  RankState& state = rank(r);
  state.list = &plan_.lists[plan_.list_of[r]];
  if (const FoldClass& c = plan_.folds.classes[r]; c.work >= 0)
    state.works = plan_.works->values.at(c.speed).begin()[c.work].data();
  state.records = plan_.records[r];
  state.marks.assign(kKeptSteps * state.list->num_marks, start_);
  state.awaited.assign(kKeptSteps * state.list->num_marks, 0);
  state.idle = IdleTime(kinds_.size());
  state.main_end = start_;
  bool any = false;
  for (int number = kNumStreams; number-- > 0;) {
    const auto s = static_cast<StreamId>(number);
    state.streams[s].end = start_;
    if (state.list->streams[s].empty()) continue;
    any = true;
    runnable_.push_back({r, s});
  }
  check(any, "a rank has something to do");
  enter(r, 0);
}

void RankProgress::enter(FoldClassId r, std::int32_t step) {
  RankState& state = rank(r);
  if (state.entered >= step) return;
  state.entered = step;
  const std::size_t first = state.mark_index(step, 0);
  std::fill_n(state.marks.begin() + static_cast<std::ptrdiff_t>(first), state.list->num_marks,
              kUnknown);
  std::fill_n(state.awaited.begin() + static_cast<std::ptrdiff_t>(first), state.list->num_marks,
              StreamSet{0});
  StepAccount& account = state.account(step);
  account.streams_left = 0;
  for (const auto& queue : state.list->streams) account.streams_left += queue.empty() ? 0 : 1;
  account.compute = account.optimizer = account.end = 0;
  account.flop = 0;
  account.main_before = account.main_end = state.streams[StreamId::kMain].end;
  for (const StreamId s : kAllStreams) account.events[s].clear(unused_events_);
  account.open_events.clear();
  account.exposed.assign(kinds_.size(), 0);
  account.rows.clear();
}

void RankProgress::settle(RankState& state, StepAccount& account) {
  state.idle.settle(account, kinds_, state.time);
  for (const StreamId s : kAllStreams) account.events[s].clear(unused_events_);
}

void RankProgress::note(StepAccount& account, const StreamState& stream, const RankState& state,
                        StreamId s, std::int32_t kind, Seconds begin, Seconds end, Seconds issued) {
  const bool first = s == StreamId::kTp || s == StreamId::kHost;
  note_event(account, s,
             {state.list->streams[s][stream.next], static_cast<std::int16_t>(kind), first, begin,
              end, issued});
}

void RankProgress::note_gap(StepAccount& account, const StreamState& stream, const RankState& state,
                            Seconds begin, Seconds end, Seconds issued) {
  const Seconds waited = std::clamp(stream.waited, begin, end);
  if (waited > begin) note(account, stream, state, StreamId::kMain, -1, begin, waited, begin);
  if (end > waited) note(account, stream, state, StreamId::kMain, -1, waited, end, issued);
}

void RankProgress::run_kernels(RankState& state, StreamState& stream, const StreamItem& item,
                               Seconds issued, Seconds ready) {
  const TimedKernels& run = *item.run;
  StepAccount& account = state.account(stream.step);
  const Seconds start = std::max(ready, issued);
  const Seconds host = issued - run.first_launch;
  (item.op->update ? account.optimizer : account.compute) += run.duration;
  account.flop += run.flop;
  num_events_ += run.num_events;
  if (host + run.slack <= start) {
    if (start > stream.end) note_gap(account, stream, state, stream.end, start, issued);
    stream.end = start + run.duration;
    if (state.records) record_run(state, stream, item, host, start);
    const GivenMark* given = state.list->given.data() + item.first_given;
    for (std::uint32_t i = 0; i < item.num_given; ++i) {
      reach(state, stream.step, given[i].mark,
            given[i].offset < 0 ? stream.end : start + given[i].offset);
    }
  } else {
    run_held_up(state, stream, item, host, start);
  }
  account.end = std::max(account.end, stream.end);
}

/// A run whose kernels go back to back from `start` on.
void RankProgress::record_run(RankState& state, const StreamState& stream, const StreamItem& item,
                              Seconds host, Seconds start) {
  Seconds launches = 0, done = 0;
  for (std::uint32_t k = 0; k < item.run->num_ops; ++k) {
    const TimedOp& op = item.op[k];
    if (op.kind != TimedKind::kKernel) continue;
    launches += op.launch;
    const Seconds begin = start + done;
    done += op.duration;
    record(state, stream, item, k, host + launches, begin, begin, start + done);
  }
}

/// A run of which the host holds up some kernels: one by one.
void RankProgress::run_held_up(RankState& state, StreamState& stream, const StreamItem& item,
                               Seconds host, Seconds start) {
  StepAccount& account = state.account(stream.step);
  const GivenMark* given = state.list->given.data() + item.first_given;
  Seconds launched = host;
  std::uint32_t mark = 0;
  for (std::uint32_t k = 0; k < item.run->num_ops; ++k) {
    const TimedOp& op = item.op[k];
    if (op.kind == TimedKind::kKernel) {
      launched += op.launch;
      const Seconds begin = std::max(k == 0 ? start : stream.end, launched);
      if (begin > stream.end) note_gap(account, stream, state, stream.end, begin, launched);
      stream.end = begin + op.duration;
      record(state, stream, item, k, launched, begin, begin, stream.end);
    }
    while (mark < item.num_given && given[mark].op == k) {
      reach(state, stream.step, given[mark++].mark, stream.end);
    }
  }
  while (mark < item.num_given) reach(state, stream.step, given[mark++].mark, stream.end);
}

void RankProgress::free(RankState& state, StreamState& stream, const StreamItem& item,
                        Seconds issued, Seconds ready) {
  StepAccount& account = state.account(stream.step);
  if (ready > stream.end) note_gap(account, stream, state, stream.end, ready, issued);
  stream.end = ready;
  reach_all(state, stream, item, ready);
}

void RankProgress::record(RankState& state, const StreamState& stream, const StreamItem& item,
                          std::uint32_t k, Seconds issued, Seconds ready, Seconds start,
                          Seconds end) {
  if (!state.records || !item.op[k].has_row) return;
  const StreamId s = item.stream;
  // Nothing starts before it is issued and ready, but sums that should be equal may round
  // otherwise.
  const Seconds in_time = std::min(issued, start);
  state.account(stream.step)
      .rows.emplace_back(state.list->streams[s][stream.next],
                         TraceRow{stream.step, item.segment, item.mb, item.op_index + k, in_time,
                                  std::clamp(ready, in_time, start), start, end});
}

void RankProgress::finish(RankState& state, StreamState& stream, const StreamItem& item,
                          Seconds start, Seconds end) {
  StepAccount& account = state.account(stream.step);
  const TimedOp& op = *item.op;
  const StreamId s = item.stream;
  if (s == StreamId::kMain) {
    if (start > stream.end) note_gap(account, stream, state, stream.end, start, stream.issued);
    (op.update ? account.optimizer : account.compute) +=
        slows_ ? end - start : state.duration(item);
  }
  if (op.exposed_kind >= 0 && end > start) {
    note(account, stream, state, s, op.exposed_kind, start, end, 0);
  }
  stream.end = end;
  if (item.gives_host >= 0) {
    const Seconds delay = host_delay(state, stream, item);
    const Seconds launches = static_cast<double>(stream.step) * state.list->launch + item.issued;
    reach(state, stream.step, static_cast<std::uint32_t>(item.gives_host),
          std::max(delay, end - launches));
  }
  reach_all(state, stream, item, end);
  account.end = std::max(account.end, end);
  account.flop += state.work(item);
  ++num_events_;
  record(state, stream, item, 0, stream.issued, stream.ready, start, end);
}

bool RankProgress::all_keep_pace(Seconds period) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankState& state) {
    return std::abs(state.main_end - state.main_before - period) <= 1e-9 * period;
  });
}

}  // namespace trainyard
