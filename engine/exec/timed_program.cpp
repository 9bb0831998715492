#include "engine/exec/timed_program.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/exec/stream_waits.h"

namespace trainyard {

namespace {

class Preparer {
 public:
  Preparer(const Program& program, const Costs& costs, const Lanes& lanes)
      : program_(program), costs_(costs), lanes_(lanes) {
    root_.resize(program.values.size());
    for (std::size_t v = 0; v < root_.size(); ++v) root_[v] = storage_root(program, static_cast<ValueId>(v));
  }

  TimedRank rank(std::size_t list, double speed) {
    const std::vector<SegmentId> segments = called(program_.body[list]);
    TimedRank out;
    // Streams that touch each storage on this rank.
    streams_.assign(program_.values.size(), 0);
    for (SegmentId s : segments) {
      for (const ProgramOp& op : program_.segments[static_cast<std::size_t>(s)].ops) {
        const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(op.stream));
        for_operands(op, [&](const Operand& o) { streams_[static_cast<std::size_t>(root(o))] |= bit; });
      }
    }
    shared_.assign(program_.values.size(), false);
    for (std::size_t v = 0; v < shared_.size(); ++v) shared_[v] = tracked(static_cast<ValueId>(v));
    find_call_order(program_.body[list]);
    slot_.assign(program_.values.size(), -1);
    const auto& costs = costs_.ops.at(speed);
    for (SegmentId s : segments) {
      const Segment& segment = program_.segments[static_cast<std::size_t>(s)];
      const auto& messages = lanes_.of_op[static_cast<std::size_t>(s)];
      TimedSegment& timed = out.segments[s];
      timed.ops.reserve(segment.ops.size());
      find_awaited(segment, out);
      const StreamWaits waits = find_stream_waits(program_, segment, root_, shared_, interrupted_[s]);
      covered_ = waits.covered;
      for (std::size_t k = 0; k < segment.ops.size(); ++k) {
        timed.ops.push_back(op(segment, segment.ops[k], costs[static_cast<std::size_t>(s)][k], messages[k], out));
        timed.ops.back().waits = waits.of_op[k];
        depend_on_ops(segment, k, timed.ops.back(), out);
      }
      find_runs(timed, out);
    }
    return out;
  }

 private:
  const Value& value(ValueId id) const { return program_.values[static_cast<std::size_t>(id)]; }
  ValueId root(const Operand& operand) const { return root_[static_cast<std::size_t>(operand.value)]; }

  std::vector<SegmentId> called(const RankClass& list) const {
    std::vector<bool> seen(program_.segments.size(), false);
    for (const Call& call : list.calls) {
      seen[static_cast<std::size_t>(call.segment)] = true;
      for (const auto& [at, inner] : call.inside) seen[static_cast<std::size_t>(inner)] = true;
    }
    std::vector<SegmentId> ids;
    for (std::size_t s = 0; s < seen.size(); ++s) {
      if (seen[s]) ids.push_back(static_cast<SegmentId>(s));
    }
    return ids;
  }

  template <typename Visit>
  static void for_operands(const ProgramOp& op, const Visit& visit) {
    for (const Operand& operand : op.reads) visit(operand);
    for (const Operand& operand : op.writes) visit(operand);
    for (const Operand& operand : op.accumulates) visit(operand);
    if (op.guard) visit(*op.guard);
  }

  /// When segments are first and last called, and which streams calls inside them use.
  void find_call_order(const RankClass& list) {
    constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
    first_call_.clear();
    last_call_.clear();
    interrupted_.clear();
    const auto see = [&](SegmentId id, std::size_t call) {
      first_call_.emplace(id, call);
      last_call_[id] = call;
    };
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      see(list.calls[i].segment, i);
      for (const auto& [at, inner] : list.calls[i].inside) {
        see(inner, i);
        for (const ProgramOp& op : program_.segments[static_cast<std::size_t>(inner)].ops) {
          interrupted_[list.calls[i].segment] |= static_cast<std::uint8_t>(1U << static_cast<unsigned>(op.stream));
        }
      }
    }
    // Gradients: zeroed on main, added to on main, and only then touched by another stream.
    zeroed_.assign(program_.values.size(), false);
    std::vector<std::size_t> last_added(program_.values.size(), 0);
    std::vector<std::size_t> first_reduced(program_.values.size(), kNever);
    for (const auto& [id, first] : first_call_) {
      const Segment& segment = program_.segments[static_cast<std::size_t>(id)];
      for (const ProgramOp& op : segment.ops) {
        const bool main = op.stream == StreamId::kMain;
        if (main && segment.phase == Phase::kPrepare) {
          for (const Operand& o : op.writes) zeroed_[static_cast<std::size_t>(root(o))] = true;
        }
        for_operands(op, [&](const Operand& o) {
          const auto storage = static_cast<std::size_t>(root(o));
          if (!shared_[storage] || program_.values[storage].scope != Scope::kStep) return;
          if (!main) first_reduced[storage] = std::min(first_reduced[storage], first);
          if (main && adds_gradients(segment)) last_added[storage] = std::max(last_added[storage], last_call_[id]);
        });
      }
    }
    for (std::size_t v = 0; v < zeroed_.size(); ++v) {
      zeroed_[v] = zeroed_[v] && program_.values[v].scope == Scope::kStep && last_added[v] <= first_reduced[v];
    }
  }

  static bool adds_gradients(const Segment& segment) {
    return segment.phase == Phase::kForward || segment.phase == Phase::kBackward ||
           segment.phase == Phase::kBackwardInput || segment.phase == Phase::kBackwardWeight;
  }

  static bool waits_for_values(const TimedOp& op, const TimedRank& rank) {
    for (std::size_t i = 0; i < op.num_dependencies; ++i) {
      if (rank.dependencies[op.first_dependency + i].waits) return true;
    }
    return false;
  }
  static bool runs_on(const TimedOp& op, const TimedRank& rank) {
    return op.kind == TimedKind::kKernel && op.stream == StreamId::kMain && !op.host_sync &&
           op.pool_taken < 0 && !waits_for_values(op, rank);
  }
  static bool plain_free(const TimedOp& op) {
    return op.kind == TimedKind::kFree && op.num_dependencies == 0 && op.num_pools_given == 0 && op.waits == 0;
  }

  static void find_runs(TimedSegment& segment, TimedRank& rank) {
    auto& ops = segment.ops;
    for (std::size_t first = 0; first < ops.size();) {
      if (!runs_on(ops[first], rank)) {
        ++first;
        continue;
      }
      TimedRun run;
      run.first_launch = ops[first].launch;
      run.first_note = static_cast<std::uint32_t>(rank.notes.size());
      std::size_t k = first;
      std::int32_t latest = 0;  // kernel of the run
      for (; k < ops.size(); ++k) {
        if (plain_free(ops[k])) {
          run.last_free = latest;
          continue;
        }
        if (!runs_on(ops[k], rank) || (k > first && ops[k].waits != 0)) break;
        run.launch += ops[k].launch;
        if (k > first) run.slack = std::max(run.slack, run.launch - run.duration);
        run.duration += ops[k].duration;
        run.flop += ops[k].flop;
        ++run.num_events;
        latest = static_cast<std::int32_t>(k - first);
        for (std::size_t i = 0; i < ops[k].num_dependencies; ++i) {
          rank.notes.push_back({rank.dependencies[ops[k].first_dependency + i], run.duration,
                                static_cast<std::uint32_t>(k - first)});
        }
      }
      run.num_ops = static_cast<std::uint32_t>(k - first);
      run.num_notes = static_cast<std::uint32_t>(rank.notes.size()) - run.first_note;
      ops[first].run = static_cast<std::int32_t>(segment.runs.size());
      segment.runs.push_back(run);
      first = k;
    }
  }

  bool tracked(ValueId storage) const {
    const std::uint8_t set = streams_[static_cast<std::size_t>(storage)];
    return (set & (set - 1)) != 0;
  }

  std::uint32_t slot(ValueId storage, TimedRank& out) {
    std::int64_t& known = slot_[static_cast<std::size_t>(storage)];
    if (known < 0) {
      known = static_cast<std::int64_t>(out.num_slots);
      out.num_slots += value(storage).scope == Scope::kMicrobatch
                           ? static_cast<std::size_t>(program_.num_microbatches) : 1;
    }
    return static_cast<std::uint32_t>(known);
  }

  void depend(const Operands& operands, bool reads, bool writes, TimedOp& op, TimedRank& out,
              bool adds = false) {
    for (const Operand& operand : operands) {
      const ValueId storage = root(operand);
      if (!shared_[static_cast<std::size_t>(storage)]) continue;
      if (std::binary_search(covered_.begin(), covered_.end(), storage)) continue;
      Dependency d;
      d.slot = slot(storage, out);
      d.per_microbatch = value(storage).scope == Scope::kMicrobatch;
      d.reads = reads;
      d.writes = writes;
      d.waits = !(adds && zeroed_[static_cast<std::size_t>(storage)]);
      out.dependencies.push_back(d);
      ++op.num_dependencies;
    }
  }

  /// Gives a slot to every op that a later op of another stream names in `after`.
  void find_awaited(const Segment& segment, TimedRank& out) {
    awaited_.assign(segment.ops.size(), -1);
    for (const ProgramOp& op : segment.ops) {
      for (std::uint32_t before : op.after) {
        if (segment.ops[before].stream == op.stream || awaited_[before] >= 0) continue;
        awaited_[before] = static_cast<std::int64_t>(out.num_slots++);
      }
    }
  }

  /// Right after op(), whose dependencies are the last ones so far.
  void depend_on_ops(const Segment& segment, std::size_t k, TimedOp& op, TimedRank& out) const {
    const auto add = [&](std::int64_t slot, bool writes) {
      Dependency d;
      d.slot = static_cast<std::uint32_t>(slot);
      d.writes = writes;
      out.dependencies.push_back(d);
      ++op.num_dependencies;
    };
    if (awaited_[k] >= 0) add(awaited_[k], true);
    for (std::uint32_t before : segment.ops[k].after) {
      if (segment.ops[before].stream != segment.ops[k].stream) add(awaited_[before], false);
    }
  }

  TimedOp op(const Segment& segment, const ProgramOp& source, const OpCost& cost,
             std::int32_t message, TimedRank& out) {
    TimedOp op;
    op.duration = cost.kernel;
    op.launch = cost.launch;
    op.flop = cost.flop;
    op.stream = source.stream;
    op.host_sync = source.host_sync;
    op.update = segment.phase == Phase::kUpdate;
    op.first_dependency = static_cast<std::uint32_t>(out.dependencies.size());
    if (source.kind == OpKind::kFree) {
      op.kind = TimedKind::kFree;
      depend(source.reads, true, true, op, out);
      op.first_pool_given = static_cast<std::uint32_t>(out.pools_given.size());
      for (const Operand& operand : source.reads) {
        const PoolId pool = value(operand.value).pool;
        if (pool < 0) continue;
        out.pools_given.push_back(pool_of_rank(pool, out));
        ++op.num_pools_given;
      }
      return op;
    }
    const bool adds = source.stream == StreamId::kMain && adds_gradients(segment);
    depend(source.reads, true, false, op, out, adds);
    if (source.guard) depend(Operands{*source.guard}, true, false, op, out);
    depend(source.writes, false, true, op, out, adds);
    depend(source.accumulates, true, true, op, out, adds);
    if (message >= 0) communication(source, message, op);
    for (const Operand& operand : source.writes) {
      const Value& v = value(operand.value);
      if (v.alias || v.scope == Scope::kPersistent) continue;
      if (v.pool >= 0) op.pool_taken = pool_of_rank(v.pool, out);
      else if (source.stream != StreamId::kMain) op.takes_arena = true;
    }
    return op;
  }

  std::int32_t pool_of_rank(PoolId pool, TimedRank& out) {
    const auto [it, fresh] = pool_.emplace(pool, static_cast<std::int32_t>(out.pool_slots.size()));
    if (fresh) out.pool_slots.push_back(program_.pools[static_cast<std::size_t>(pool)].slots);
    return it->second;
  }

  static void communication(const ProgramOp& source, std::int32_t message, TimedOp& op) {
    const bool receives = source.kind == OpKind::kRecv;
    op.kind = receives                       ? TimedKind::kReceive
              : source.kind == OpKind::kSend ? TimedKind::kSend
                                             : TimedKind::kCollective;
    op.message = message;
    op.exposed_kind = 2 * message + (receives ? 1 : 0);
  }

  const Program& program_;
  const Costs& costs_;
  const Lanes& lanes_;
  std::vector<ValueId> root_;           // [value]
  std::vector<std::uint8_t> streams_;   // [storage root], of the rank being prepared
  std::vector<bool> shared_;            // [storage root]: touched by several streams of this rank
  std::vector<bool> zeroed_;            // [storage root]: see find_call_order
  std::vector<ValueId> covered_;        // storages that need no tracking in the segment being prepared
  std::unordered_map<SegmentId, std::size_t> first_call_, last_call_;
  std::unordered_map<SegmentId, std::uint8_t> interrupted_;
  std::vector<std::int64_t> slot_;      // [storage root]; -1: not tracked yet
  std::unordered_map<PoolId, std::int32_t> pool_;  // of the rank being prepared
  std::vector<std::int64_t> awaited_;   // [op of the segment being prepared]: slot of its end; -1: none
};

}  // namespace

std::vector<std::string> exposed_kinds(const Program& program, const Lanes& lanes) {
  std::vector<std::string> out;
  for (const Message& message : lanes.messages) {
    const Lane& lane = lanes.lanes[static_cast<std::size_t>(message.lane)];
    if (lane.group < 0) {
      const std::string axis(to_string(lane.axis));
      out.push_back("send:" + axis);
      out.push_back("recv:" + axis);
      continue;
    }
    out.push_back(std::string(to_string(message.kind)) + ":" + program.groups[static_cast<std::size_t>(lane.group)].name);
    out.push_back(out.back());
  }
  return out;
}

TimedRank prepare(const Program& program, const Costs& costs, const Lanes& lanes, std::size_t list, double speed) {
  return Preparer(program, costs, lanes).rank(list, speed);
}

}  // namespace trainyard
