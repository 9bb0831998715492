#include "engine/exec/stream_list.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::uint32_t kEnd = ~0U;  // the end of an item, rather than of one of its ops

/// An end on some stream: of op `op` of item `at`. Items are numbered through both passes.
struct Point {
  std::int64_t at = -1;  // -1: before everything
  std::uint32_t op = kEnd;
  std::int8_t stream = -1;
  bool before(const Point& other) const { return at != other.at ? at < other.at : op < other.op; }
};

using Clock = std::array<std::int64_t, kNumStreams>;  // [stream]: latest item known to have ended

/// Latest accesses, one per stream.
struct Accesses {
  boost::container::small_vector<Point, 2> latest;
  void see(const Point& point) {
    for (Point& known : latest) {
      if (known.stream != point.stream) continue;
      known = point;
      return;
    }
    latest.push_back(point);
  }
};

struct PoolTurns {
  std::vector<Point> given;
  std::size_t taken = 0;
};

class ListMaker {
 public:
  ListMaker(const Program& program, const Lanes& lanes, std::size_t list, const StreamListOptions& options,
            std::map<std::pair<std::size_t, std::size_t>, std::uint32_t>& limits, StreamList& out)
      : program_(program), lanes_(lanes), calls_(program.body[list].calls), options_(options), limits_(limits),
        out_(out) {
    written_.resize(out.timed.num_slots);
    read_.resize(out.timed.num_slots);
    pools_.resize(out.timed.pool_slots.size());
    awaited_calls_.assign(calls_.size(), false);
    for (const Call& call : calls_) {
      for (const CallRef& before : call.after) awaited_calls_[before.call] = true;
    }
    call_ends_.resize(calls_.size());
    out.concurrent.assign(lanes.lanes.size(), 0);
  }

  /// The list is the body of a loop: a first pass finds what a step leaves behind, the second one makes
  /// the items of a step that comes after another. False: the second one had to end some bodies earlier,
  /// and noted so in the limits; both have to be done again.
  bool run() {
    walk();
    per_pass_ = next_;
    recording_ = true;
    host_ = 0;
    const std::vector<BodyPlace> first = std::exchange(taken_, {});
    walk();
    if (first != taken_) {
      for (const BodyPlace& place : first) limits_[{place.call, place.op}] = 0;
      for (const BodyPlace& place : taken_) limits_[{place.call, place.op}] = place.taken;
      return false;
    }
    check(next_ == 2 * per_pass_, "both passes see the same items");
    out_.launch = host_;
    settle_marks();
    return true;
  }

  /// A body that was made, or could not be: `taken` 0.
  struct BodyPlace {
    std::size_t call, op;
    std::uint32_t taken;
    friend bool operator==(const BodyPlace&, const BodyPlace&) = default;
  };
  using Limits = std::map<std::pair<std::size_t, std::size_t>, std::uint32_t>;

 private:
  bool skipped(const Segment& segment) const {
    if (!options_.compute_only) return false;
    if (segment.phase == Phase::kPrepare || segment.phase == Phase::kUpdate) return true;
    return segment.phase == Phase::kCommunicate && segment.slots == 0;
  }
  const Segment& segment(SegmentId id) const { return program_.segments[static_cast<std::size_t>(id)]; }

  void walk() {
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      if (skipped(segment(call.segment))) continue;
      call_ = c;
      const TimedSegment& timed = out_.timed.segments.at(call.segment);
      const bool whole_runs = options_.whole_runs && call.inside.empty();
      const std::vector<std::uint32_t>* ends = whole_runs && options_.bodies != 0 ? &body_ends(call.segment, timed) : nullptr;
      std::size_t inner = 0;
      for (std::size_t k = 0; k <= timed.ops.size();) {
        for (; inner < call.inside.size() && call.inside[inner].first <= k; ++inner) inside(call.inside[inner].second);
        if (k == timed.ops.size()) break;
        const TimedOp& op = timed.ops[k];
        if (ends != nullptr && (*ends)[k] > 0) {
          std::size_t limit = (*ends)[k];
          if (const auto known = limits_.find({c, k}); known != limits_.end()) limit = std::min(limit, k + known->second);
          const std::uint32_t taken = limit > k ? add_body(call.segment, call.mb[0], k, timed.ops, limit) : 0;
          taken_.push_back({c, k, taken});
          if (taken > 0) {
            k += taken;
            continue;
          }
        }
        if (whole_runs && op.run >= 0) {
          const TimedRun& run = timed.runs[static_cast<std::size_t>(op.run)];
          add_run(call.segment, call.mb[0], k, op, run);
          k += run.num_ops;
        } else {
          add(call.segment, call.mb[0], k, op);
          ++k;
        }
      }
      // What is inside behind the last op.
      for (; inner < call.inside.size(); ++inner) inside(call.inside[inner].second);
    }
  }

  void inside(SegmentId id) {
    if (skipped(segment(id))) return;
    const auto& ops = out_.timed.segments.at(id).ops;
    for (std::size_t k = 0; k < ops.size(); ++k) add(id, -1, k, ops[k]);
  }

  std::size_t slot(const Dependency& d, Microbatch mb) const {
    return d.slot + (d.per_microbatch ? static_cast<std::size_t>(mb) : 0);
  }

  void need(const Point& point) {
    if (point.at < 0 || point.stream == stream_) return;
    Point& known = needed_[static_cast<std::size_t>(point.stream)];
    if (known.before(point)) known = point;
  }
  void need(const Accesses& accesses) {
    for (const Point& point : accesses.latest) need(point);
  }
  Point end_of(std::size_t stream) const { return {last_[stream], kEnd, static_cast<std::int8_t>(stream)}; }

  void begin(StreamId stream) {
    stream_ = static_cast<std::int8_t>(stream);
    needed_.fill(Point{});
    for (const CallRef& before : calls_[call_].after) {
      for (std::size_t s = 0; s < kNumStreams; ++s) need(call_ends_[before.call][s]);
    }
    need(host_sync_);
  }

  void need_streams(unsigned waits) {
    for (std::size_t s = 0; waits >> s != 0; ++s) {
      if ((waits >> s & 1U) != 0) need(end_of(s));
    }
  }

  const std::vector<std::uint32_t>& body_ends(SegmentId id, const TimedSegment& timed) {
    const auto [it, fresh] = body_ends_.try_emplace(id);
    if (fresh) it->second = find_body_ends(timed, lanes_, options_.bodies);
    return it->second;
  }

  /// Accesses of the body being tried, to take back where it has to end earlier.
  void see_in_body(Accesses& accesses, const Point& point) {
    undo_.emplace_back(&accesses, accesses);
    accesses.see(point);
  }
  void take_back(std::size_t kept) {
    while (undo_.size() > kept) {
      *undo_.back().first = std::move(undo_.back().second);
      undo_.pop_back();
    }
  }

  /// What an op needs but for its slot of a pool; leaves it in needed_.
  void need_of(const TimedOp& op, Microbatch mb) {
    begin(op.stream);
    const Dependency* d = out_.timed.dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (!d[i].waits) continue;
      need(written_[slot(d[i], mb)]);
      if (d[i].writes) need(read_[slot(d[i], mb)]);
    }
    need_streams(op.waits);
    if (op.takes_arena) need(last_free_);
  }

  /// A body at op k of the segment, which ends before op `limit`: how many ops it took; 0: none can be made.
  /// Everything but its first op waits only for what is inside it, or for what was known when that began.
  std::uint32_t add_body(SegmentId id, Microbatch mb, std::size_t k, const std::vector<TimedOp>& ops, std::size_t limit) {
    if (!calls_[call_].after.empty() || ops[k].pool_taken >= 0) return 0;
    const Point last_free = last_free_;
    undo_.clear();
    std::uint32_t taken = try_body(id, mb, k, ops, limit);
    while (taken > 0 && body_.num_ops != taken) {
      take_back(0);
      last_free_ = last_free;
      taken = try_body(id, mb, k, ops, k + taken);
    }
    if (taken == 0) {
      take_back(0);
      last_free_ = last_free;
      return 0;
    }
    place_body(id, mb, k, ops);
    return taken;
  }

  /// Fills body_ and notes its accesses. The ops that could be taken, body_.num_ops of them noted; less
  /// than noted: the accesses of the rest are to be taken back.
  std::uint32_t try_body(SegmentId id, Microbatch mb, std::size_t k, const std::vector<TimedOp>& ops, std::size_t limit) {
    constexpr auto kMain = static_cast<std::size_t>(StreamId::kMain);
    const TimedOp& first = ops[k];
    const auto other = static_cast<std::size_t>(first.stream);
    need_of(first, mb);
    const Point before_main = end_of(kMain);
    body_after_main_ = !needed_[kMain].before(before_main) && before_main.at >= 0;
    entry_needs_ = needed_;
    Clock known = clock_[other];
    for (std::size_t t = 0; t < kNumStreams; ++t) {
      const Point& point = needed_[t];
      if (point.at < 0 || known[t] >= point.at) continue;
      const Clock& behind = clocks_[static_cast<std::size_t>(point.at)];
      for (std::size_t u = 0; u < kNumStreams; ++u) known[u] = std::max(known[u], behind[u]);
      if (point.op == kEnd) known[t] = point.at;
    }
    entry_known_ = known;
    body_ = TimedBody{};
    body_.segment = id;
    body_.first = static_cast<std::uint32_t>(k);
    body_.stream = first.stream;
    const std::int64_t number = next_;
    std::uint32_t collectives = 0, kernels = 0, good = 0;
    bool follows = false, last_waits = false, any_main = false;
    for (std::size_t j = k; j < limit; ++j) {
      const TimedOp& op = ops[j];
      const auto at = static_cast<std::uint32_t>(j - k);
      const bool on_main = op.kind != TimedKind::kCollective;
      const auto own = on_main ? kMain : other;
      bool waits_for_other = false, refused = false;
      if (j > k) {
        // needed_ by hand: points inside the body become edges.
        const std::size_t edges = body_.edges.size();
        const auto check_point = [&](const Point& point) {
          if (point.at < 0 || point.stream == static_cast<std::int8_t>(own)) return;
          if (point.at == number) {
            body_.edges.emplace_back(at, point.op);
            waits_for_other = true;
            return;
          }
          const auto t = static_cast<std::size_t>(point.stream);
          if (known[t] >= point.at || (on_main && clock_[kMain][t] >= point.at)) return;
          // The body waits for the end of the other stream's items before it, and its ops on main for main's.
          if (on_main && t == other) return;
          if (!on_main && t == kMain && (any_main && (op.waits >> kMain & 1U) != 0)) return;
          refused = true;
        };
        const Dependency* d = out_.timed.dependencies.data() + op.first_dependency;
        for (std::size_t i = 0; i < op.num_dependencies; ++i) {
          if (!d[i].waits && op.kind != TimedKind::kFree) continue;
          for (const Point& point : written_[slot(d[i], mb)].latest) check_point(point);
          if (!d[i].writes && op.kind != TimedKind::kFree) continue;
          for (const Point& point : read_[slot(d[i], mb)].latest) check_point(point);
        }
        for (std::size_t s = 0; op.waits >> s != 0; ++s) {
          if ((op.waits >> s & 1U) == 0 || s == own) continue;
          if (s == kMain || s == other) waits_for_other = true;
          else check_point(end_of(s));
        }
        // Before main has begun anything, its end is what it was on entry: that is not waited for.
        if (!on_main && !any_main && (op.waits >> kMain & 1U) != 0 && !body_after_main_) refused = true;
        if (op.takes_arena) check_point(last_free_);
        check_point(host_sync_);
        if (refused) {
          body_.edges.resize(edges);
          break;
        }
        std::sort(body_.edges.begin() + static_cast<std::ptrdiff_t>(edges), body_.edges.end());
        body_.edges.erase(std::unique(body_.edges.begin() + static_cast<std::ptrdiff_t>(edges), body_.edges.end()), body_.edges.end());
      }
      const Point point{number, at, static_cast<std::int8_t>(own)};
      const Dependency* d = out_.timed.dependencies.data() + op.first_dependency;
      for (std::size_t i = 0; i < op.num_dependencies; ++i) {
        if (d[i].reads && op.kind != TimedKind::kFree) see_in_body(read_[slot(d[i], mb)], point);
        if (d[i].writes) see_in_body(written_[slot(d[i], mb)], point);
      }
      if (!on_main) {
        ++collectives;
        body_.last_collective = at;
        body_.main_knows_last = false;
        last_waits = waits_for_other || (at == 0 && body_after_main_);
      } else {
        if (op.kind == TimedKind::kFree) {
          last_free_ = any_main || waits_for_other ? point : before_main;
          if (op.num_dependencies > 0) last_free_ = point;
        } else if (kernels++ == 0) {
          body_.main_follows = waits_for_other || follows;
        }
        any_main = any_main || op.kind != TimedKind::kFree || waits_for_other;
        if (waits_for_other) follows = body_.main_knows_last = knows_last(at);
      }
      body_.num_ops = at + 1;
      const bool sound = collectives > 0 && kernels > 0 && follows && last_waits;
      if (sound) good = at + 1;
    }
    return good;
  }

  /// Whether op `at` of the body being tried, which waits for the other stream, waits for its latest op.
  bool knows_last(std::uint32_t at) const {
    const TimedOp& op = out_.timed.segments.at(body_.segment).ops[body_.first + at];
    if ((op.waits >> static_cast<unsigned>(body_.stream) & 1U) != 0) return true;
    return std::any_of(body_.edges.begin(), body_.edges.end(),
                       [&](const auto& edge) { return edge.first == at && edge.second == body_.last_collective; });
  }

  void place_body(SegmentId id, Microbatch mb, std::size_t k, const std::vector<TimedOp>& ops) {
    constexpr auto kMain = static_cast<std::size_t>(StreamId::kMain);
    const auto other = static_cast<std::size_t>(body_.stream);
    const TimedOp& first = ops[k];
    const Point other_end = end_of(other);
    // The item is on main, but waits as its first collective would, and for that one's stream.
    stream_ = static_cast<std::int8_t>(StreamId::kMain);
    needed_ = entry_needs_;
    needed_[other] = other_end;
    StreamItem& item = place(id, mb, k, first, ItemKind::kBody, &clock_[other]);
    item.after_main = body_after_main_;
    for (std::uint32_t j = 0; j < body_.num_ops; ++j) host_ += ops[k + j].launch;
    if (recording_) item.body = body_number();
    const std::int64_t number = next_ - 1;
    Clock& clock = clock_[kMain];
    for (std::size_t u = 0; u < kNumStreams; ++u) {
      if (u != kMain) clock[u] = std::max(clock[u], entry_known_[u]);
    }
    clocks_.back() = entry_known_;
    find_concurrent(first, body_.stream);
    stream_ = static_cast<std::int8_t>(body_.stream);
    needed_.fill(Point{});
    needed_[kMain] = {number, body_.last_collective, static_cast<std::int8_t>(StreamId::kMain)};
    place(id, mb, k, first, ItemKind::kFollow);
    sent_[other].back().first = next_ - 1;
    if (body_.main_knows_last) clock[other] = next_ - 1;
  }

  std::int32_t body_number() {
    auto& known = out_.bodies;
    const auto it = std::find(known.begin(), known.end(), body_);
    if (it != known.end()) return static_cast<std::int32_t>(it - known.begin());
    known.push_back(body_);
    const TimedOp& first = out_.timed.segments.at(body_.segment).ops[body_.first];
    out_.body_lanes |= std::uint64_t{1} << lanes_.messages[static_cast<std::size_t>(first.message)].lane;
    return static_cast<std::int32_t>(known.size() - 1);
  }

  /// Turns `needed_` into waits and advances this stream's clock. `as`: of bodies, the clock of the first
  /// op's stream, which says what that op need not wait for; but for the end of that stream it does.
  StreamItem& place(SegmentId id, Microbatch mb, std::size_t k, const TimedOp& op, ItemKind kind,
                    const Clock* as = nullptr) {
    const auto s = static_cast<std::size_t>(stream_);
    Clock& clock = clock_[s];
    StreamItem item;
    item.kind = kind;
    item.stream = static_cast<StreamId>(stream_);
    item.mb = mb;
    item.segment = id;
    item.op_index = static_cast<std::uint32_t>(k);
    item.op = &op;
    item.issued = host_;
    item.first_wait = static_cast<std::uint32_t>(out_.waits.size());
    for (std::size_t t = 0; t < kNumStreams; ++t) {
      const Point& point = needed_[t];
      if (point.at < 0) continue;
      const bool whole = point.op == kEnd;
      const bool own = as == nullptr || t == static_cast<std::size_t>(op.stream);
      if ((own ? clock : *as)[t] >= point.at) continue;
      const Clock& behind = clocks_[static_cast<std::size_t>(point.at)];
      for (std::size_t u = 0; u < kNumStreams; ++u) clock[u] = std::max(clock[u], behind[u]);
      if (whole) clock[t] = point.at;
      if (recording_) {
        out_.waits.push_back(mark(point));
        ++item.num_waits;
      }
    }
    if (recording_ && host_sync_.at >= 0) {
      item.host = static_cast<std::int64_t>(2 * host_mark_) + (host_sync_.at < per_pass_ ? 1 : 0);
    }
    clocks_.push_back(clock);
    clock[s] = last_[s] = next_++;
    if (awaited_calls_[call_]) call_ends_[call_][s] = end_of(s);
    if (recording_) {
      out_.streams[s].push_back(static_cast<std::uint32_t>(out_.items.size()));
    }
    scratch_ = item;
    return recording_ ? out_.items.emplace_back(item) : scratch_;
  }

  MarkRef mark(const Point& point) {
    const bool previous = point.at < per_pass_;
    const std::int64_t item = previous ? point.at : point.at - per_pass_;
    const auto key = static_cast<std::uint64_t>(item) << 32U | point.op;
    const auto [it, fresh] = marks_.emplace(key, static_cast<std::uint32_t>(marks_.size()));
    return 2 * it->second + (previous ? 1 : 0);
  }

  void add_run(SegmentId id, Microbatch mb, std::size_t k, const TimedOp& op, const TimedRun& run) {
    begin(StreamId::kMain);
    need_streams(op.waits);
    const Seconds before = host_;
    host_ += run.first_launch;
    place(id, mb, k, op, ItemKind::kRun).run = &run;
    host_ = before + run.launch;
    const std::int64_t at = next_ - 1;
    const auto point = [&](std::uint32_t of) { return Point{at, of, stream_}; };
    if (run.last_free >= 0) last_free_ = point(static_cast<std::uint32_t>(run.last_free));
    const RunNote* note = out_.timed.notes.data() + run.first_note;
    for (std::size_t i = 0; i < run.num_notes; ++i) {
      const std::size_t which = slot(note[i].dependency, mb);
      if (note[i].dependency.reads) read_[which].see(point(note[i].op));
      if (note[i].dependency.writes) written_[which].see(point(note[i].op));
    }
  }

  void add(SegmentId id, Microbatch mb, std::size_t k, const TimedOp& op) {
    if (op.kind == TimedKind::kFree) {
      add_free(id, mb, k, op);
      return;
    }
    const Dependency* d = out_.timed.dependencies.data() + op.first_dependency;
    need_of(op, mb);
    if (op.pool_taken >= 0) {
      PoolTurns& pool = pools_[static_cast<std::size_t>(op.pool_taken)];
      const auto slots = static_cast<std::size_t>(std::max(1, out_.timed.pool_slots[static_cast<std::size_t>(op.pool_taken)]));
      if (pool.taken >= slots && pool.taken - slots < pool.given.size()) need(pool.given[pool.taken - slots]);
      ++pool.taken;
    }
    host_ += op.launch;
    StreamItem& item = place(id, mb, k, op, kind_of(op));
    const Point point = end_of(static_cast<std::size_t>(stream_));
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (d[i].reads) read_[slot(d[i], mb)].see(point);
      if (d[i].writes) written_[slot(d[i], mb)].see(point);
    }
    if (op.message >= 0) find_concurrent(op, op.stream);
    if (op.host_sync) {
      host_sync_ = point;
      if (recording_) {
        host_mark_ = static_cast<std::uint32_t>(num_host_marks_++);
        item.gives_host = static_cast<std::int32_t>(host_mark_);
      } else {
        host_mark_ = static_cast<std::uint32_t>(num_syncs_++);
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
  void add_free(SegmentId id, Microbatch mb, std::size_t k, const TimedOp& op) {
    begin(StreamId::kMain);
    need_streams(op.waits);
    const Dependency* d = out_.timed.dependencies.data() + op.first_dependency;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      need(written_[slot(d[i], mb)]);
      need(read_[slot(d[i], mb)]);
    }
    const bool waits = op.waits != 0 || op.num_dependencies > 0 || !calls_[call_].after.empty();
    if (waits) place(id, mb, k, op, ItemKind::kFree);
    const Point point = end_of(static_cast<std::size_t>(StreamId::kMain));
    last_free_ = point;
    if (awaited_calls_[call_]) call_ends_[call_][static_cast<std::size_t>(StreamId::kMain)] = point;
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (d[i].writes) written_[slot(d[i], mb)].see(point);
    }
    for (std::size_t i = 0; i < op.num_pools_given; ++i) {
      pools_[static_cast<std::size_t>(out_.timed.pools_given[op.first_pool_given + i])].given.push_back(point);
    }
  }

  /// Messages that this one does not wait for, on other lanes of the rank. The latest of each stream is
  /// enough: what comes before it on its stream has ended before it.
  void find_concurrent(const TimedOp& op, StreamId stream) {
    const auto s = static_cast<std::size_t>(stream);
    const auto lane = static_cast<std::size_t>(lanes_.messages[static_cast<std::size_t>(op.message)].lane);
    const Clock& known = clocks_.back();
    for (std::size_t t = 0; t < kNumStreams; ++t) {
      if (t == s) continue;
      for (auto it = sent_[t].rbegin(); it != sent_[t].rend() && it->first > known[t]; ++it) {
        if ((sent_over_[t] & ~out_.concurrent[lane]) == 0) break;
        out_.concurrent[lane] |= std::uint64_t{1} << it->second;
        out_.concurrent[it->second] |= std::uint64_t{1} << lane;
      }
    }
    sent_[s].emplace_back(next_ - 1, lane);
    sent_over_[s] |= std::uint64_t{1} << lane;
  }

  void settle_marks() {
    const std::size_t num_points = marks_.size();
    out_.num_marks = num_points + num_host_marks_;
    for (StreamItem& item : out_.items) {
      if (item.host >= 0) item.host += 2 * static_cast<std::int64_t>(num_points);
      if (item.gives_host >= 0) item.gives_host += static_cast<std::int32_t>(num_points);
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> sorted(marks_.begin(), marks_.end());
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [key, mark] : sorted) {
      StreamItem& item = out_.items[key >> 32U];
      const auto op = static_cast<std::uint32_t>(key);
      if (item.num_given == 0) item.first_given = static_cast<std::uint32_t>(out_.given.size());
      ++item.num_given;
      const bool inside = op != kEnd && item.kind == ItemKind::kRun;
      out_.given.push_back({mark, op, inside ? offset(item, op) : -1});
    }
  }

  static Seconds offset(const StreamItem& item, std::uint32_t op) {
    Seconds sum = 0;
    for (std::uint32_t i = 0; i <= op; ++i) sum += item.op[i].duration;
    return sum;
  }

  const Program& program_;
  const Lanes& lanes_;
  const std::vector<Call>& calls_;
  const StreamListOptions& options_;
  Limits& limits_;
  StreamList& out_;
  std::vector<BodyPlace> taken_;  // of this pass
  bool recording_ = false;
  std::int64_t per_pass_ = 0, next_ = 0;
  Seconds host_ = 0;
  std::size_t call_ = 0;
  std::int8_t stream_ = 0;
  std::array<Point, kNumStreams> needed_{};  // of the item being made
  StreamItem scratch_;
  std::array<Clock, kNumStreams> clock_ = filled();
  std::vector<Clock> clocks_;                // [item, both passes]: what was known when it became ready
  Clock last_ = filled()[0];                 // latest item of each stream
  std::vector<Accesses> written_, read_;     // [slot]
  std::vector<PoolTurns> pools_;
  Point last_free_, host_sync_;
  std::uint32_t host_mark_ = 0;
  std::size_t num_host_marks_ = 0, num_syncs_ = 0;
  std::vector<bool> awaited_calls_;
  std::vector<std::array<Point, kNumStreams>> call_ends_;
  std::array<std::vector<std::pair<std::int64_t, std::size_t>>, kNumStreams> sent_;  // item, lane
  std::array<std::uint64_t, kNumStreams> sent_over_{};  // lanes of each stream so far
  std::unordered_map<std::uint64_t, std::uint32_t> marks_;
  std::unordered_map<SegmentId, std::vector<std::uint32_t>> body_ends_;
  // Of the body being tried:
  TimedBody body_;
  bool body_after_main_ = false;
  std::array<Point, kNumStreams> entry_needs_{};
  Clock entry_known_{};
  std::vector<std::pair<Accesses*, Accesses>> undo_;

  static std::array<Clock, kNumStreams> filled() {
    std::array<Clock, kNumStreams> out{};
    for (Clock& clock : out) clock.fill(-1);
    return out;
  }
};

}  // namespace

StreamList make_stream_list(const Program& program, const Costs& costs, const Lanes& lanes, std::size_t list,
                            double speed, const StreamListOptions& options) {
  check(lanes.lanes.size() <= 64, "more kinds of communication than lanes are told apart");
  StreamListOptions how = options;
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> limits;
  constexpr int kMostTries = 8;
  for (int tries = 1;; ++tries) {
    StreamList out;
    out.timed = prepare(program, costs, lanes, list, speed);
    if (tries == kMostTries) how.bodies = 0;
    if (ListMaker(program, lanes, list, how, limits, out).run()) return out;
  }
}

}  // namespace trainyard
