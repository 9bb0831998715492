#include "engine/exec/lists/stream_list.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "engine/exec/bodies/body_cache.h"
#include "engine/exec/bodies/body_limits.h"
#include "engine/exec/lists/called_segments.h"
#include "engine/exec/lists/concurrent_lanes.h"
#include "engine/exec/lists/stream_marks.h"

namespace trainyard {

namespace {

constexpr std::uint32_t kEnd = StreamPoint::kEnd;

struct PoolTurns {
  std::vector<StreamPoint> given;
  std::size_t taken = 0;
};

/// What several tries at one list have in common.
struct ListContext {
  TimedRank timed;
  CalledSegments called;
  BodyLimits limits;

  ListContext(const Program& program, const Lanes& lanes, std::size_t list, TimedRank its_timed,
              const StreamListOptions& options)
      : timed(std::move(its_timed)),
        called(program, lanes, program.body[list].calls, timed, options) {}
};

class StreamListBuilder {
 public:
  StreamListBuilder(const Program& program, const Lanes& lanes, std::size_t list,
                    const StreamListOptions& options, ListContext& context, StreamList& out)
      : program_(program),
        lanes_(lanes),
        calls_(program.body[list].calls),
        options_(options),
        context_(context),
        timed_(context.timed),
        out_(out),
        bodies_(context.timed, state_),
        concurrent_(lanes.lanes.size()) {
    state_.slots.resize(timed_.num_slots);
    pools_.resize(timed_.pool_slots.size());
    awaited_calls_.assign(calls_.size(), false);
    for (const Call& call : calls_) {
      for (const CallRef& before : call.after) awaited_calls_[before.call] = true;
    }
    call_ends_.resize(calls_.size());
  }

  /// The list is the body of a loop: a first pass finds what a step leaves behind, the second one
  /// makes the items of a step that comes after another. False: the second one had to end some
  /// bodies earlier, and noted so in the limits; both have to be done again.
  bool run() {
    walk();
    const ItemNumber per_pass = state_.next;
    recording_ = true;
    host_ = 0;
    out_.items.reserve(per_pass);
    state_.clocks.reserve(2 * std::int64_t{per_pass});
    marks_.begin(per_pass);
    walk();
    if (!context_.limits.settle()) return false;
    check(state_.next == 2 * per_pass, "both passes see the same items");
    out_.launch = host_;
    out_.concurrent = concurrent_.take();
    marks_.settle(out_);
    return true;
  }

 private:
  void walk() {
    context_.limits.begin_walk();
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      const CalledSegment& called = context_.called.of_call(c);
      if (called.skipped) continue;
      call_ = c;
      const TimedSegment& timed = *called.timed;
      const bool whole_runs = options_.whole_runs && call.inside.empty();
      const bool bodies = whole_runs && options_.bodies != 0;
      std::size_t inner = 0;
      for (std::size_t k = 0; k <= timed.ops.size();) {
        for (; inner < call.inside.size() && call.inside[inner].first <= k; ++inner)
          inside(call.inside[inner].second);
        if (k == timed.ops.size()) break;
        const TimedOp& op = timed.ops[k];
        if (bodies && called.body_ends[k] > 0) {
          const std::size_t limit = context_.limits.end(c, k, called.body_ends[k]);
          const std::uint32_t taken =
              limit > k ? add_body(call.segment, call.mb, k, timed.ops, limit) : 0;
          context_.limits.note(c, k, taken);
          if (taken > 0) {
            k += taken;
            continue;
          }
        }
        if (whole_runs && op.run >= 0) {
          const TimedKernels& run = timed.runs[op.run];
          add_run(call.segment, call.mb, k, op, run);
          k += run.num_ops;
        } else {
          add(call.segment, call.mb, k, op);
          ++k;
        }
      }
      // What is inside behind the last op.
      for (; inner < call.inside.size(); ++inner) inside(call.inside[inner].second);
    }
  }

  void inside(SegmentId id) {
    if (is_skipped(program_.segments[id], options_)) return;
    const auto& ops = timed_.segments.at(id).ops;
    for (std::size_t k = 0; k < ops.size(); ++k) add(id, {-1, -1}, k, ops[k]);
  }

  SlotAccesses& slot(const Dependency& d, const Microbatches& mb) {
    return state_.slots[IssueState::slot(d, mb)];
  }

  void need(const StreamPoint& point) {
    if (point.at() < 0 || point.stream() == stream_) return;
    StreamPoint& known = needed_[point.stream()];
    if (known.before(point)) known = point;
  }
  void need(const StreamAccesses& accesses) {
    for (const StreamPoint& point : accesses.latest) need(point);
  }

  void begin(StreamId stream) {
    stream_ = stream;
    needed_.fill(StreamPoint{});
    for (const CallRef& before : calls_[call_].after) {
      for (const StreamId s : kAllStreams) need(call_ends_[before.call][s]);
    }
    need(state_.host_sync);
  }

  void need_streams(unsigned waits) {
    for (const StreamId s : kAllStreams) {
      if ((waits & stream_bit(s)) != 0) need(state_.end_of(s));
    }
  }

  /// What an op needs but for its slot of a pool; leaves it in needed_.
  void need_of(const TimedOp& op, const Microbatches& mb) {
    begin(op.stream);
    const Dependency* d = timed_.dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (!d[i].waits) continue;
      const SlotAccesses& accesses = slot(d[i], mb);
      need(accesses.written);
      if (d[i].writes) need(accesses.read);
    }
    need_streams(op.waits);
    if (op.takes_arena) need(state_.last_free);
  }

  /// A body at op k of the segment, which ends before op `limit`: how many ops it took; 0: none can
  /// be made.
  std::uint32_t add_body(SegmentId id, const Microbatches& mb, std::size_t k,
                         const std::vector<TimedOp>& ops, std::size_t limit) {
    const TimedOp& first = ops[k];
    if (!calls_[call_].after.empty() || first.pool_taken >= 0) return 0;
    need_of(first, mb);
    if (options_.slows && !bodies_.begins_with_main(ops, k, limit, needed_)) return 0;
    FoundBody* found = bodies_.find(id, ops, mb, k, limit, needed_);
    if (found == nullptr) return 0;
    place_body(id, mb, k, first, *found);
    return found->body.num_ops;
  }

  void place_body(SegmentId id, const Microbatches& mb, std::size_t k, const TimedOp& first,
                  FoundBody& found) {
    const TimedBody& body = found.body;
    const BodyCache::Entry& entry = bodies_.entry();
    const StreamId other = body.stream;
    // The item is on main, but waits as its first collective would, and for that one's stream.
    stream_ = StreamId::kMain;
    needed_ = entry.needs;
    needed_[other] = state_.end_of(other);
    StreamItem& item = place(id, mb, k, first, ItemKind::kBody, &state_.clock[other]);
    item.after_main = entry.after_main;
    host_ += found.launch;
    if (recording_) {
      if (found.number < 0) found.number = out_.bodies.number(body, &first, lanes_);
      item.body = found.number;
    }
    const ItemNumber number = state_.next - 1;
    StreamClock& clock = state_.clock[StreamId::kMain];
    for (const StreamId u : kAllStreams) {
      if (u != StreamId::kMain) clock[u] = std::max(clock[u], entry.known[u]);
    }
    state_.clocks.back() = entry.known;
    stream_ = other;
    needed_.fill(StreamPoint{});
    needed_[StreamId::kMain] = {number, body.last_collective, StreamId::kMain};
    place(id, mb, k, first, ItemKind::kFollow);
    concurrent_.send(state_.next - 1, lane_of(first), other, entry.known);
    if (body.main_knows_last) clock[other] = state_.next - 1;
  }

  /// Turns `needed_` into waits and advances this stream's clock. `as`: of bodies, the clock of the
  /// first op's stream, which says what that op need not wait for; for the end of that stream it
  /// always does.
  StreamItem& place(SegmentId id, const Microbatches& mb, std::size_t k, const TimedOp& op,
                    ItemKind kind, const StreamClock* as = nullptr) {
    const StreamId s = stream_;
    StreamClock& clock = state_.clock[s];
    StreamItem& item = recording_ ? out_.items.emplace_back() : scratch_;
    if (!recording_) item = StreamItem{};
    item.kind = kind;
    item.stream = stream_;
    item.mb = mb[0];
    item.segment = id;
    item.op_index = static_cast<std::uint32_t>(k);
    item.op = &op;
    item.issued = host_;
    item.first_wait = static_cast<std::uint32_t>(out_.waits.size());
    for (const StreamId t : kAllStreams) {
      const StreamPoint& point = needed_[t];
      if (point.at() < 0) continue;
      const bool whole = point.op() == kEnd;
      // Main may be past that stream's end; the body's first collective is not for that.
      const bool end_of_own = as != nullptr && t == op.stream;
      if (!end_of_own && (as == nullptr ? clock : *as)[t] >= point.at()) continue;
      const StreamClock& behind = state_.clocks[point.at()];
      for (const StreamId u : kAllStreams) clock[u] = std::max(clock[u], behind[u]);
      if (whole) clock[t] = point.at();
      if (recording_) {
        out_.waits.push_back(marks_.mark(point));
        ++item.num_waits;
      }
    }
    if (recording_ && state_.host_sync.at() >= 0) {
      item.host = static_cast<std::int32_t>(2 * host_mark_) +
                  (marks_.is_of_step_before(state_.host_sync) ? 1 : 0);
    }
    check(state_.next < std::numeric_limits<ItemNumber>::max(),
          "a list has fewer items than can be numbered");
    state_.clocks.push_back(clock);
    clock[s] = state_.last[s] = state_.next++;
    if (awaited_calls_[call_]) call_ends_[call_][s] = state_.end_of(s);
    if (recording_) out_.streams[s].push_back(static_cast<std::uint32_t>(out_.items.size() - 1));
    return item;
  }

  void add_run(SegmentId id, const Microbatches& mb, std::size_t k, const TimedOp& op,
               const TimedKernels& run) {
    begin(StreamId::kMain);
    need_streams(op.waits);
    const Seconds before = host_;
    host_ += run.first_launch;
    place(id, mb, k, op, ItemKind::kRun).run = &run;
    host_ = before + run.launch;
    const ItemNumber at = state_.next - 1;
    const auto point = [&](std::uint32_t of) { return StreamPoint{at, of, stream_}; };
    if (run.last_free >= 0) state_.last_free = point(static_cast<std::uint32_t>(run.last_free));
    const RunNote* note = timed_.notes.data() + run.first_note;
    for (std::size_t i = 0; i < run.num_notes; ++i) {
      const Dependency& d = note[i].dependency;
      SlotAccesses& accesses = slot(d, mb);
      if (d.reads) accesses.read.see(point(note[i].op));
      if (d.writes) accesses.written.see(point(note[i].op));
    }
  }

  void add(SegmentId id, const Microbatches& mb, std::size_t k, const TimedOp& op) {
    if (op.kind == TimedKind::kFree) {
      add_free(id, mb, k, op);
      return;
    }
    const Dependency* d = timed_.dependencies.data() + op.first_dependency;
    need_of(op, mb);
    if (op.pool_taken >= 0) {
      PoolTurns& pool = pools_[op.pool_taken];
      const std::size_t slots = position(std::max(1, timed_.pool_slots[op.pool_taken]));
      if (pool.taken >= slots && pool.taken - slots < pool.given.size())
        need(pool.given[pool.taken - slots]);
      ++pool.taken;
    }
    host_ += op.launch;
    StreamItem& item = place(id, mb, k, op, kind_of(op));
    if (op.work >= 0) item.body = mb.begin()[op.work_slot] * timed_.num_works + op.work;
    const StreamPoint point = state_.end_of(stream_);
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      SlotAccesses& accesses = slot(d[i], mb);
      if (d[i].reads) accesses.read.see(point);
      if (d[i].writes) accesses.written.see(point);
    }
    if (op.message != kNoIndex)
      concurrent_.send(state_.next - 1, lane_of(op), op.stream, state_.clocks.back());
    if (op.host_sync) {
      state_.host_sync = point;
      if (recording_) {
        host_mark_ = static_cast<std::uint32_t>(out_.issued_at_wait.size());
        item.gives_host = static_cast<std::int32_t>(host_mark_);
        out_.issued_at_wait.push_back(host_);
      } else {
        host_mark_ = num_syncs_++;
      }
    }
  }

  static ItemKind kind_of(const TimedOp& op) {
    switch (op.kind) {
      case TimedKind::kCollective: return ItemKind::kCollective;
      case TimedKind::kSend: return ItemKind::kSend;
      case TimedKind::kReceive: return ItemKind::kReceive;
      default: return ItemKind::kKernel;
    }
  }

  /// A free that waits for nothing takes no time and no place in the queue.
  void add_free(SegmentId id, const Microbatches& mb, std::size_t k, const TimedOp& op) {
    begin(StreamId::kMain);
    need_streams(op.waits);
    const Dependency* d = timed_.dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      const SlotAccesses& accesses = slot(d[i], mb);
      need(accesses.written);
      need(accesses.read);
    }
    const bool waits = op.waits != 0 || op.num_dependencies > 0 || !calls_[call_].after.empty();
    if (waits) place(id, mb, k, op, ItemKind::kFree);
    const StreamPoint point = state_.end_of(StreamId::kMain);
    state_.last_free = point;
    if (awaited_calls_[call_]) call_ends_[call_][StreamId::kMain] = point;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (d[i].writes) slot(d[i], mb).written.see(point);
    }
    for (std::size_t i = 0; i < op.num_pools_given; ++i) {
      pools_[timed_.pools_given[op.first_pool_given + i]].given.push_back(point);
    }
  }

  LaneId lane_of(const TimedOp& op) const { return lanes_.messages[op.message].lane; }

  const Program& program_;
  const Lanes& lanes_;
  const std::vector<Call>& calls_;
  const StreamListOptions& options_;
  ListContext& context_;
  const TimedRank& timed_;
  StreamList& out_;
  IssueState state_;
  BodyCache bodies_;
  bool recording_ = false;
  StreamMarks marks_;
  Seconds host_ = 0;
  std::size_t call_ = 0;
  StreamId stream_ = StreamId::kMain;
  StreamNeeds needed_{};  // of the item being made
  StreamItem scratch_;
  Indexed<std::int32_t, PoolTurns> pools_;
  std::uint32_t host_mark_ = 0;
  std::uint32_t num_syncs_ = 0;  // of the first pass
  std::vector<bool> awaited_calls_;
  std::vector<StreamNeeds> call_ends_;
  ConcurrentLanes concurrent_;
};

}  // namespace

Seconds issued_at_wait(const StreamList& list, const StreamItem& item) {
  // Marks of the host's delay are the last.
  const auto from_end = static_cast<std::ptrdiff_t>(list.num_marks) - (item.host >> 1);
  const Seconds issued = *(list.issued_at_wait.end() - from_end);
  return (item.host & 1) == 0 ? issued : issued - list.launch;
}

StreamList make_stream_list(const Program& program, const Lanes& lanes, std::size_t list,
                            TimedRank timed, const StreamListOptions& options) {
  check(lanes.lanes.size() <= kMostLanes, "more kinds of communication than lanes are told apart");
  StreamListOptions how = options;
  ListContext context(program, lanes, list, std::move(timed), options);
  constexpr int kMostTries = 8;
  for (int tries = 1;; ++tries) {
    StreamList out;
    if (tries == kMostTries) how.bodies = 0;
    if (!StreamListBuilder(program, lanes, list, how, context, out).run()) continue;
    out.timed = std::move(context.timed);  // items point into it, wherever it is
    return out;
  }
}

}  // namespace trainyard
