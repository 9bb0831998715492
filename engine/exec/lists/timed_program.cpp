#include "engine/exec/lists/timed_program.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/exec/lists/kernel_runs.h"
#include "engine/exec/lists/stream_waits.h"
#include "engine/exec/trace.h"
#include "engine/program/no_ops.h"
#include "engine/program/owners.h"
#include "engine/program/pool_uses.h"

namespace trainyard {

namespace {

Indexed<ValueId, ValueId> storage_roots(const Program& program) {
  Indexed<ValueId, ValueId> roots;
  roots.reserve(program.values.size());
  for (const ValueId v : program.values.keys()) roots.push_back(storage_root(program, v));
  return roots;
}

}  // namespace

/// A Program may have as many lists as layers, so what is kept by value or segment is made once,
/// and reset only where a list has touched it.
class TimedRanks::Lowering {
 public:
  Lowering(const Program& program, const Costs& costs, const Lanes& lanes)
      : program_(program),
        costs_(costs),
        lanes_(lanes),
        root_(storage_roots(program)),
        waits_(program, root_) {
    const std::size_t values = program.values.size(), segments = program.segments.size();
    streams_.resize(values, 0);
    shared_.resize(values, false);
    zeroed_.resize(values, false);
    last_added_.resize(values, 0);
    first_reduced_.resize(values, kNever);
    slot_.resize(values, -1);
    first_call_.resize(segments, kNever);
    last_call_.resize(segments, 0);
    interrupted_.resize(segments, 0);
  }

  TimedRank make(std::size_t list, double speed, std::int32_t place) {
    reset();
    find_call_order(program_.body[list]);
    find_shared();
    find_zeroed();
    TimedRank out;
    const auto& costs = costs_.ops.at(speed);
    const std::int32_t pipeline_rank = pipeline_rank_of(program_.body[list].ranks, program_.mesh);
    out.segments.reserve(called_.size());
    out.num_works = costs_.works.num_symbols;
    for (SegmentId s : called_) {
      const Segment& segment = program_.segments[s];
      const auto& messages = lanes_.of_op[s];
      TimedSegment& timed = out.segments[s];
      timed.ops.reserve(segment.ops.size());
      find_awaited(segment, out);
      const StreamWaits waits = waits_.find(segment, shared_, interrupted_[s]);
      covered_ = &waits.covered;
      for (std::size_t k = 0; k < segment.ops.size(); ++k) {
        // What belongs to another owner is passed by.
        const std::int32_t owner =
            place < 0 || messages[k] != kNoIndex ? -1 : owner_of(program_, segment.ops[k]);
        const bool passed_by = owner >= 0 && owner != place;
        const OpCost& cost = passed_by ? kPassedBy : costs[s][k];
        timed.ops.push_back(op(segment, k, cost, messages[k], out));
        timed.ops.back().has_row =
            !passed_by && !has_no_peers(program_, segment.ops[k], pipeline_rank);
        timed.ops.back().waits = waits.of_op[k];
        if (const std::int32_t work = costs_.works.symbol(s, k); work >= 0) {
          timed.ops.back().work = work;
          timed.ops.back().work_slot = segment.ops[k].reads[0].slot;
        }
        depend_on_ops(segment, k, timed.ops.back(), out);
      }
      find_runs(timed, out);
    }
    return out;
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr OpCost kPassedBy{};

  const Value& value(ValueId id) const { return program_.values[id]; }
  ValueId root(const Operand& operand) const { return root_[operand.value]; }

  template <typename Visit>
  static void for_operands(const ProgramOp& op, const Visit& visit) {
    for (const Operand& operand : op.reads) visit(operand);
    for (const Operand& operand : op.writes) visit(operand);
    for (const Operand& operand : op.accumulates) visit(operand);
    if (op.guard) visit(*op.guard);
  }

  void reset() {
    for (const SegmentId s : called_) {
      first_call_[s] = kNever;
      interrupted_[s] = 0;
    }
    called_.clear();
    for (const ValueId storage : touched_) {
      streams_[storage] = 0;
      shared_[storage] = zeroed_[storage] = false;
      last_added_[storage] = 0;
      first_reduced_[storage] = kNever;
      slot_[storage] = -1;
    }
    touched_.clear();
    pool_.clear();
  }

  /// When segments are first and last called, and which streams calls inside them use.
  void find_call_order(const RankClass& list) {
    const auto see = [&](SegmentId id, std::size_t call) {
      std::size_t& first = first_call_[id];
      if (first == kNever) {
        first = call;
        called_.push_back(id);
      }
      last_call_[id] = call;
    };
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      see(list.calls[i].segment, i);
      for (const auto& [at, inner] : list.calls[i].inside) {
        see(inner, i);
        for (const ProgramOp& op : program_.segments[inner].ops) {
          interrupted_[list.calls[i].segment] |= stream_bit(op.stream);
        }
      }
    }
    std::sort(called_.begin(), called_.end());
  }

  /// Storages that several streams touch on this rank.
  void find_shared() {
    for (const SegmentId s : called_) {
      for (const ProgramOp& op : program_.segments[s].ops) {
        const StreamSet bit = stream_bit(op.stream);
        for_operands(op, [&](const Operand& o) {
          StreamSet& set = streams_[root(o)];
          if (set == 0) touched_.push_back(root(o));
          set |= bit;
        });
      }
    }
    for (const ValueId v : touched_) {
      const StreamSet set = streams_[v];
      shared_[v] = (set & (set - 1)) != 0;
    }
  }

  /// Gradients: zeroed on main, added to on main, and only then touched by another stream.
  void find_zeroed() {
    for (const SegmentId id : called_) {
      const Segment& segment = program_.segments[id];
      for (const ProgramOp& op : segment.ops) {
        const bool main = op.stream == StreamId::kMain;
        if (main && segment.phase == Phase::kPrepare) {
          for (const Operand& o : op.writes) zeroed_[root(o)] = true;
        }
        for_operands(op, [&](const Operand& o) {
          const auto storage = root(o);
          if (!shared_[storage] || !is_gradient(storage)) return;
          if (!main) first_reduced_[storage] = std::min(first_reduced_[storage], first_call_[id]);
          if (main && adds_gradients(segment)) {
            last_added_[storage] = std::max(last_added_[storage], last_call_[id]);
          }
        });
      }
    }
    for (const ValueId storage : touched_) {
      zeroed_[storage] = zeroed_[storage] && is_gradient(storage) &&
                         last_added_[storage] <= first_reduced_[storage];
    }
  }

  /// Or another value of the whole step; with post-validation gradients outlive it.
  bool is_gradient(ValueId storage) const {
    const Value& v = program_.values[storage];
    return v.scope == Scope::kStep ||
           (v.scope == Scope::kPersistent && v.memory == MemoryClass::kGradient);
  }

  static bool adds_gradients(const Segment& segment) {
    return segment.phase == Phase::kForward || segment.phase == Phase::kBackward ||
           segment.phase == Phase::kBackwardInput || segment.phase == Phase::kBackwardWeight;
  }

  std::uint32_t slot(ValueId storage, TimedRank& out) {
    std::int64_t& known = slot_[storage];
    if (known < 0) {
      known = static_cast<std::int64_t>(out.num_slots);
      out.num_slots +=
          value(storage).scope == Scope::kMicrobatch ? position(program_.num_microbatches) : 1;
    }
    return static_cast<std::uint32_t>(known);
  }

  void depend(const Operands& operands, bool reads, bool writes, TimedOp& op, TimedRank& out,
              bool adds = false) {
    for (const Operand& operand : operands) {
      const ValueId storage = root(operand);
      if (!shared_[storage]) continue;
      if (std::binary_search(covered_->begin(), covered_->end(), storage)) continue;
      Dependency d;
      d.slot = slot(storage, out);
      d.microbatch = value(storage).scope == Scope::kMicrobatch
                         ? static_cast<std::uint8_t>(operand.slot + 1)
                         : 0;
      d.reads = reads;
      d.writes = writes;
      d.waits = !(adds && zeroed_[storage]);
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

  TimedOp op(const Segment& segment, std::size_t k, const OpCost& cost, MessageId message,
             TimedRank& out) {
    const ProgramOp& source = segment.ops[k];
    TimedOp op;
    op.duration = cost.kernel;
    op.launch = cost.launch;
    op.flop = cost.flop;
    op.stream = source.stream;
    if (source.stream == StreamId::kHost)
      op.exposed_kind = static_cast<std::int32_t>(2 * lanes_.messages.size());
    const bool computes = is_compute(source.stream) && source.kind != OpKind::kFree;
    op.host_sync = source.host_sync || (costs_.host_computes && computes);
    op.update = segment.phase == Phase::kUpdate;
    op.first_dependency = static_cast<std::uint32_t>(out.dependencies.size());
    if (source.kind == OpKind::kFree) {
      op.kind = TimedKind::kFree;
      depend(source.reads, true, true, op, out);
      op.first_pool_given = static_cast<std::uint32_t>(out.pools_given.size());
      for (const Operand& operand : source.reads) {
        const PoolId pool = value(operand.value).pool;
        if (pool == kNoIndex) continue;
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
    if (message != kNoIndex) communication(source, message, op);
    if (const ValueId filled = slot_taken(program_, segment.ops, k); filled != kNoIndex)
      op.pool_taken = pool_of_rank(value(filled).pool, out);
    for (const Operand& operand : source.writes) {
      const Value& v = value(operand.value);
      if (v.alias || v.scope == Scope::kPersistent || v.pool != kNoIndex) continue;
      if (source.stream != StreamId::kMain) op.takes_arena = true;
    }
    return op;
  }

  std::int32_t pool_of_rank(PoolId pool, TimedRank& out) {
    const auto [it, fresh] =
        pool_.try_emplace(pool, static_cast<std::int32_t>(out.pool_slots.size()));
    if (fresh) out.pool_slots.push_back(program_.pools[pool].slots);
    return it->second;
  }

  static void communication(const ProgramOp& source, MessageId message, TimedOp& op) {
    const bool receives = source.kind == OpKind::kRecv;
    op.kind = receives                     ? TimedKind::kReceive
              : is_collective(source.kind) ? TimedKind::kCollective
                                           : TimedKind::kSend;
    op.message = message;
    op.exposed_kind = 2 * message.number() + (receives ? 1 : 0);
  }

  const Program& program_;
  const Costs& costs_;
  const Lanes& lanes_;
  Indexed<ValueId, ValueId> root_;
  StreamWaitAnalysis waits_;
  // State of the list being prepared, of storages:
  std::vector<ValueId> touched_;
  Indexed<ValueId, StreamSet> streams_;
  Indexed<ValueId, bool> shared_;                             // touched by several streams
  Indexed<ValueId, bool> zeroed_;                             // see find_zeroed
  Indexed<ValueId, std::size_t> last_added_, first_reduced_;  // calls
  Indexed<ValueId, std::int64_t> slot_;                       // -1: not tracked yet
  // The same of segments:
  std::vector<SegmentId> called_;                           // ascending
  Indexed<SegmentId, std::size_t> first_call_, last_call_;  // calls
  Indexed<SegmentId, StreamSet> interrupted_;               // streams of the calls inside
  std::unordered_map<PoolId, std::int32_t> pool_;
  // State of the segment being prepared:
  const std::vector<ValueId>* covered_ = nullptr;  // storages that need no tracking
  std::vector<std::int64_t> awaited_;              // [op]: slot of its end; -1: none
};

TimedRanks::TimedRanks(const Program& program, const Costs& costs, const Lanes& lanes)
    : lowering_(std::make_unique<Lowering>(program, costs, lanes)) {}
TimedRanks::~TimedRanks() = default;
TimedRank TimedRanks::make(std::size_t list, double speed, std::int32_t place) {
  return lowering_->make(list, speed, place);
}

}  // namespace trainyard
