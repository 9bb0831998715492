#include "engine/exec/analytic_executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/fold.h"
#include "engine/exec/time_classes.h"
#include "engine/exec/timed_program.h"

namespace trainyard {

namespace {

/// Ring of the slots of one pool: when each was last given back.
struct PoolState {
  std::vector<Seconds> given;
  std::size_t next_taken = 0;
  std::size_t next_given = 0;
};

/// State of one simulated rank. Times are absolute and carry over from step to step.
struct RankState {
  std::array<Seconds, kNumStreams> stream{};
  Seconds host = 0;
  Seconds last_free = 0;              // main stream's time at the latest free issued
  std::vector<Seconds> written, read; // [slot]: latest end of a writer, of a reader
  std::vector<PoolState> pools;
  std::vector<Seconds> call_end;      // [call of the list]: latest end of its ops, this step
  Seconds not_before = 0;             // what the current call's `after` edges allow

  // Cursor: next op to evaluate.
  std::size_t call = 0;
  std::size_t op = 0;
  std::size_t inside = 0;     // next call inside the current one
  std::size_t inside_op = 0;  // its next op
  bool waiting = false;       // for a rendezvous; its op is the one under the cursor
  Seconds issued = 0, ready = 0;  // of the op under the cursor, while it waits
  Seconds met = 0;                // when all members were ready

  bool records = false;  // keep rows

  // Of the step being run.
  Seconds main_before = 0;  // the main stream's time when the step began
  Seconds step_end = 0;
  Seconds compute = 0, optimizer = 0;
  Flop flop = 0;
  GapClassifier gaps;
  std::vector<TraceRow> rows;
};

/// Ranks gather here until all members of a collective, or both ends of a transfer, are ready.
struct Rendezvous {
  std::vector<std::int32_t> arrived;
  Seconds ready = 0;
};

class AnalyticRun {
 public:
  AnalyticRun(const Program& program, const Costs& costs, const RunOptions& options)
      : program_(program), options_(options),
        folds_(fold_ranks(program, costs.cluster, options.fold)),
        timed_(prepare(program, costs, folds_)) {}

  Trace run(Seconds start) {
    for (std::size_t r = 0; r < folds_.size(); ++r) {
      RankState& state = states_.emplace_back();
      state.records = options_.record_rows && (options_.fold || wants_rows(r));
      state.stream.fill(start);
      state.host = state.last_free = start;
      state.written.assign(timed_.ranks[r].num_slots, start);
      state.read.assign(timed_.ranks[r].num_slots, start);
      state.call_end.assign(list(r).size(), start);
      state.gaps = GapClassifier(timed_.exposed_kinds.size());
      for (const int slots : timed_.ranks[r].pool_slots) {
        state.pools.push_back({std::vector<Seconds>(static_cast<std::size_t>(std::max(1, slots)), start), 0, 0});
      }
    }
    const int steps = options_.compute_only ? 1 : std::max(1, options_.max_steps);
    Seconds before = start;
    Seconds last_period = -1;
    for (step_ = 0; step_ < steps; ++step_) {
      const Seconds end = run_step();
      trace_.step_ends.push_back(end);
      trace_.period = end - before;
      before = end;
      trace_.steady = step_ > 0 && std::abs(trace_.period - last_period) <= 1e-9 * trace_.period &&
                      every_rank_keeps_pace();
      if (trace_.steady) break;
      last_period = trace_.period;
    }
    for (std::size_t r = 0; r < folds_.size(); ++r) trace_.ranks.push_back(report(r));
    trace_.sources = timed_.sources;
    return std::move(trace_);
  }

 private:
  /// Unfolded: the first rank of each list, and those asked for.
  bool wants_rows(std::size_t r) const {
    const auto& asked = options_.trace_ranks;
    if (std::find(asked.begin(), asked.end(), folds_[r].rank) != asked.end()) return true;
    return std::none_of(folds_.begin(), folds_.begin() + static_cast<std::ptrdiff_t>(r),
                        [&](const FoldClass& before) { return before.list == folds_[r].list; });
  }

  /// Ranks that nothing ties together once a step may still be drifting apart when the latest end has
  /// settled already.
  bool every_rank_keeps_pace() const {
    return std::all_of(states_.begin(), states_.end(), [&](const RankState& state) {
      const Seconds own = state.stream[static_cast<std::size_t>(StreamId::kMain)] - state.main_before;
      return std::abs(own - trace_.period) <= 1e-9 * trace_.period;
    });
  }

  Seconds run_step() {
    for (std::size_t r = 0; r < states_.size(); ++r) begin_step(states_[r]);
    runnable_.clear();
    for (std::size_t r = states_.size(); r-- > 0;) runnable_.push_back(static_cast<std::int32_t>(r));
    while (!runnable_.empty()) {
      const std::int32_t rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    Seconds end = 0;
    for (std::size_t r = 0; r < states_.size(); ++r) {
      check(states_[r].call == list(r).size(), "ranks wait for each other; verify() should have said so");
      end = std::max(end, states_[r].step_end);
    }
    return end;
  }

  void begin_step(RankState& state) {
    TimeClasses last_step;
    state.gaps.end_step(timed_.exposed_kinds, last_step);
    state.call = state.op = state.inside = state.inside_op = 0;
    state.waiting = false;
    state.main_before = state.stream[static_cast<std::size_t>(StreamId::kMain)];
    state.compute = state.optimizer = 0;
    state.flop = 0;
    state.rows.clear();
  }

  const std::vector<Call>& list(std::size_t rank) const { return program_.body[folds_[rank].list].calls; }

  bool skipped(const Segment& segment) const {
    if (!options_.compute_only) return false;
    if (segment.phase == Phase::kPrepare || segment.phase == Phase::kUpdate) return true;
    return segment.phase == Phase::kCommunicate && segment.slots == 0;
  }

  /// Evaluates ops of one rank in issue order until it has to wait for another, or the step is done.
  void advance(std::int32_t rank) {
    const auto r = static_cast<std::size_t>(rank);
    RankState& state = states_[r];
    const auto& calls = list(r);
    while (state.call < calls.size()) {
      const Call& call = calls[state.call];
      const TimedSegment& segment = timed_.ranks[r].segments.at(call.segment);
      const auto& ops = segment.ops;
      // Whole runs at once, unless every op is to be seen, or something is issued in their midst.
      const bool whole_runs = !state.records && call.inside.empty();
      if (skipped(program_.segments[static_cast<std::size_t>(call.segment)])) {
        next_call(state);
        continue;
      }
      state.not_before = 0;
      for (const CallRef& before : call.after) {
        state.not_before = std::max(state.not_before, state.call_end[before.call]);
      }
      for (;;) {
        if (state.inside < call.inside.size() && call.inside[state.inside].first <= state.op) {
          const SegmentId inner = call.inside[state.inside].second;
          const auto& inner_ops = timed_.ranks[r].segments.at(inner).ops;
          if (!skipped(program_.segments[static_cast<std::size_t>(inner)])) {
            while (state.inside_op < inner_ops.size()) {
              if (!evaluate(rank, inner_ops[state.inside_op], inner, -1, state.inside_op)) return;
              ++state.inside_op;
            }
          }
          state.inside_op = 0;
          ++state.inside;
          continue;
        }
        if (state.op >= ops.size()) break;
        const TimedOp& op = ops[state.op];
        if (whole_runs && op.run >= 0 && evaluate_run(r, op, segment.runs[static_cast<std::size_t>(op.run)], call.mb[0])) {
          state.op += segment.runs[static_cast<std::size_t>(op.run)].num_ops;
          continue;
        }
        if (!evaluate(rank, op, call.segment, call.mb[0], state.op)) return;
        ++state.op;
      }
      next_call(state);
    }
  }

  static void next_call(RankState& state) {
    ++state.call;
    state.op = state.inside = state.inside_op = 0;
  }

  std::size_t instance(const Dependency& d, Microbatch mb) const {
    return d.slot + (d.per_microbatch ? static_cast<std::size_t>(mb) : 0);
  }

  /// False: the op waits for other ranks, and so does this rank's cursor.
  bool evaluate(std::int32_t rank, const TimedOp& op, SegmentId segment, Microbatch mb, std::size_t k) {
    const auto r = static_cast<std::size_t>(rank);
    RankState& state = states_[r];
    if (op.kind == TimedKind::kFree) {
      free(r, op, mb);
      return true;
    }
    if (state.waiting) {  // the rendezvous has taken place
      state.waiting = false;
      finish(r, op, segment, mb, k, state.met);
      return true;
    }
    state.host += op.launch;
    state.issued = state.host;
    Seconds ready = std::max({state.issued, state.not_before,
                              state.stream[static_cast<std::size_t>(op.stream)]});
    const Dependency* d = timed_.ranks[r].dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (!d[i].waits) continue;
      const std::size_t at = instance(d[i], mb);
      ready = std::max(ready, state.written[at]);
      if (d[i].writes) ready = std::max(ready, state.read[at]);
    }
    if (op.waits != 0) ready = std::max(ready, latest_of(state, op.waits));
    if (op.takes_arena) ready = std::max(ready, state.last_free);
    if (op.pool_taken >= 0) {
      PoolState& pool = state.pools[static_cast<std::size_t>(op.pool_taken)];
      ready = std::max(ready, pool.given[pool.next_taken]);
      pool.next_taken = (pool.next_taken + 1) % pool.given.size();
    }
    state.ready = ready;
    switch (op.kind) {
      case TimedKind::kJointCollective: return meet_group(rank, op);
      case TimedKind::kSend:
      case TimedKind::kReceive: return meet_peer(rank, op);
      default: finish(r, op, segment, mb, k, ready); return true;
    }
  }

  static Seconds latest_of(const RankState& state, unsigned streams) {
    Seconds latest = 0;
    for (std::size_t s = 0; streams >> s != 0; ++s) {
      if ((streams >> s & 1U) != 0) latest = std::max(latest, state.stream[s]);
    }
    return latest;
  }

  /// False: the host would hold the run up, so its ops are timed one by one.
  bool evaluate_run(std::size_t r, const TimedOp& first, const TimedRun& run, Microbatch mb) {
    RankState& state = states_[r];
    Seconds& main = state.stream[static_cast<std::size_t>(StreamId::kMain)];
    const Seconds issued = state.host + run.first_launch;
    Seconds start = std::max({issued, state.not_before, main});
    if (first.waits != 0) start = std::max(start, latest_of(state, first.waits));
    if (state.host + run.slack > start) return false;
    if (start > main) state.gaps.gap(main, start, issued);
    const Seconds end = start + run.duration;
    (first.update ? state.optimizer : state.compute) += run.duration;
    if (run.last_free >= 0) state.last_free = start + run.last_free;
    const RunNote* note = timed_.ranks[r].notes.data() + run.first_note;
    for (std::size_t i = 0; i < run.num_notes; ++i) {
      const std::size_t at = instance(note[i].dependency, mb);
      const Seconds ended = start + note[i].offset;
      if (note[i].dependency.reads) state.read[at] = std::max(state.read[at], ended);
      if (note[i].dependency.writes) state.written[at] = std::max(state.written[at], ended);
    }
    main = end;
    state.host += run.launch;
    state.step_end = std::max(state.step_end, end);
    Seconds& call_end = state.call_end[state.call];
    call_end = std::max(call_end, end);
    state.flop += run.flop;
    trace_.num_events += run.num_events;
    return true;
  }

  void free(std::size_t r, const TimedOp& op, Microbatch mb) {
    RankState& state = states_[r];
    Seconds& main = state.stream[static_cast<std::size_t>(StreamId::kMain)];
    Seconds until = std::max(main, latest_of(state, op.waits));
    const Dependency* d = timed_.ranks[r].dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      const std::size_t at = instance(d[i], mb);
      until = std::max({until, state.written[at], state.read[at]});
    }
    if (until > main) state.gaps.gap(main, until, state.host);
    main = state.last_free = until;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (d[i].writes) state.written[instance(d[i], mb)] = until;
    }
    Seconds& call_end = state.call_end[state.call];
    call_end = std::max(call_end, until);
    for (std::size_t i = 0; i < op.num_pools_given; ++i) {
      PoolState& pool = state.pools[static_cast<std::size_t>(
          timed_.ranks[r].pools_given[op.first_pool_given + i])];
      pool.given[pool.next_given] = until;
      pool.next_given = (pool.next_given + 1) % pool.given.size();
    }
  }

  void finish(std::size_t r, const TimedOp& op, SegmentId segment, Microbatch mb, std::size_t k,
              Seconds start) {
    RankState& state = states_[r];
    const Seconds end = start + op.duration;
    Seconds& stream = state.stream[static_cast<std::size_t>(op.stream)];
    if (op.stream == StreamId::kMain) {
      if (start > stream) state.gaps.gap(stream, start, state.issued);
      (op.update ? state.optimizer : state.compute) += op.duration;
    }
    if (op.exposed_kind >= 0 && end > start) {
      state.gaps.communication(start, end, op.exposed_kind,
                               state.stream[static_cast<std::size_t>(StreamId::kMain)]);
    }
    stream = end;
    const Dependency* d = timed_.ranks[r].dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      const std::size_t at = instance(d[i], mb);
      if (d[i].reads) state.read[at] = std::max(state.read[at], end);
      if (d[i].writes) state.written[at] = std::max(state.written[at], end);
    }
    if (op.host_sync) state.host = std::max(state.host, end);
    state.step_end = std::max(state.step_end, end);
    Seconds& call_end = state.call_end[state.call];
    call_end = std::max(call_end, end);
    state.flop += op.flop;
    ++trace_.num_events;
    if (state.records) {
      state.rows.push_back({step_, segment, mb, static_cast<std::uint32_t>(k), state.issued, state.ready, start, end});
    }
  }

  bool meet_group(std::int32_t rank, const TimedOp& op) {
    const FoldedGroup& group = folds_[static_cast<std::size_t>(rank)].groups[static_cast<std::size_t>(op.group)];
    return meet({0, group.key, 0, static_cast<std::int32_t>(op.stream)}, rank, group.members.size());
  }

  bool meet_peer(std::int32_t rank, const TimedOp& op) {
    const std::int32_t peer = folds_[static_cast<std::size_t>(rank)].peers[static_cast<std::size_t>(op.transfer)].fold_class;
    const bool sends = op.kind == TimedKind::kSend;
    const std::int32_t from = sends ? rank : peer;
    const std::int32_t to = sends ? peer : rank;
    return meet({1, from, to, static_cast<std::int32_t>(transfer_stream(op.stream))}, rank, 2);
  }

  /// Registers this rank; the last to arrive sets all going. Members evaluate their op again then, and
  /// find `waiting` set and the time in `met`.
  bool meet(const std::array<std::int32_t, 4>& key, std::int32_t rank, std::size_t members) {
    RankState& state = states_[static_cast<std::size_t>(rank)];
    Rendezvous& place = places_[key];
    place.arrived.push_back(rank);
    place.ready = place.arrived.size() == 1 ? state.ready : std::max(place.ready, state.ready);
    state.waiting = true;
    if (place.arrived.size() < members) return false;
    for (std::int32_t member : place.arrived) {
      states_[static_cast<std::size_t>(member)].met = place.ready;
      runnable_.push_back(member);
    }
    place.arrived.clear();
    return false;
  }

  /// A rank that is still catching up (`steady` is false then) has idle time from before the period.
  static void cut_idle_time(TimeClasses& time, Seconds excess) {
    const auto cut = [&](Seconds& part) {
      const Seconds by = std::min(part, excess);
      part -= by;
      excess -= by;
    };
    cut(time.bubble);
    cut(time.host);
    for (auto& [kind, seconds] : time.exposed) cut(seconds);
  }

  RankTrace report(std::size_t r) {
    RankState& state = states_[r];
    RankTrace out;
    out.rank = folds_[r].rank;
    out.multiplicity = folds_[r].multiplicity;
    out.list = folds_[r].list;
    out.executed_flop = state.flop;
    out.time.compute = state.compute;
    out.time.optimizer = state.optimizer;
    state.gaps.end_step(timed_.exposed_kinds, out.time);
    // After its last op on main a rank waits for its own communication and the slowest rank.
    const Seconds rest = trace_.period - out.time.total();
    if (rest < 0) cut_idle_time(out.time, -rest);
    if (rest > 0) {
      const Seconds main = state.stream[static_cast<std::size_t>(StreamId::kMain)];
      state.gaps.gap(main, main + rest, main);
      state.gaps.end_step(timed_.exposed_kinds, out.time);
    }
    out.rows = std::move(state.rows);
    return out;
  }

  const Program& program_;
  const RunOptions& options_;
  std::vector<FoldClass> folds_;
  TimedProgram timed_;
  std::vector<RankState> states_;  // [fold class]
  std::map<std::array<std::int32_t, 4>, Rendezvous> places_;
  std::vector<std::int32_t> runnable_;
  std::int32_t step_ = 0;
  Trace trace_;
};

}  // namespace

Trace AnalyticExecutor::run(std::span<const Job> jobs, const Costs& costs, const RunOptions& options) {
  check(jobs.size() == 1 && jobs[0].program != nullptr, "the analytic executor runs one job");
  return AnalyticRun(*jobs[0].program, costs, options).run(jobs[0].start);
}

}  // namespace trainyard
