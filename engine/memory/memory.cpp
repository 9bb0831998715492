#include "engine/memory/memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "engine/memory/held_values.h"
#include "engine/memory/memory_moves.h"
#include "engine/program/pair_members.h"

namespace trainyard {

namespace {

void add(MemoryParts& to, const MemoryParts& part) {
  for (const MemoryClass of : to.keys()) to[of] += part[of];
}

/// Parameters gathered for a while, of which some are not read yet.
struct GatheredBytes {
  Bytes all = 0;
  Bytes unread = 0;
};

/// What one run of a segment does to the bytes alive.
struct Profile {
  MemoryParts net{};      // after the last op
  MemoryParts at_peak{};  // at the op after which the total is largest
  Bytes peak = 0;         // sum(at_peak), >= 0: the start counts too
  std::size_t peak_op = 0;
  GatheredBytes gathered_at_peak;
  Bytes gathered_net = 0;
  std::vector<ValueId> unread;  // gathered for another call
  // What another call has gathered, and the op that reads it first.
  std::vector<std::pair<ValueId, std::size_t>> first_reads;
  std::vector<MemoryMove> moves;  // where they are asked for
};

enum class Detail : std::uint8_t { kPeaks, kMoves };

class MemoryCounter {
 public:
  MemoryCounter(const Program& program, const FixedMemory& fixed, Detail detail)
      : program_(program),
        fixed_(fixed),
        detail_(detail),
        value_mark_(program.values.size(), 0),
        segment_mark_(program.segments.size(), 0),
        pool_mark_(program.pools.size(), 0),
        slot_(program.pools.size(), 0) {
    for (auto& of_slot : touched_by_) of_slot.assign(program.values.size(), kNoIndex);
    root_.reserve(program.values.size());
    bytes_.reserve(program.values.size());
    for (const ValueId v : program.values.keys()) {
      root_.push_back(storage_root(program, v));
      bytes_.push_back(held_bytes(program.values[v], fixed));
    }
    find_gathered();
    for (const Segment& segment : program.segments) profiles_.push_back(profile(segment));
  }

  /// Calls visit(const MemoryStep&, const CallMoves&) for what lives before the step, then for
  /// every call.
  template <typename Visit>
  void follow(const RankClass& list, const Visit& visit) {
    MemoryStep step;
    step.after = standing(list);
    step.after[MemoryClass::kBuffer] += fixed_.buffers;
    step.after[MemoryClass::kGradient] += fixed_.gradients_per_parameter * parameters_;
    step.at_peak = step.after;
    visit(step, CallMoves{step.after, {}});
    Bytes gathered = 0;
    std::vector<ValueId> unread;  // gathered by calls so far
    const auto run = [&](SegmentId id, const std::array<Microbatch, 2>& mb) {
      const Profile& p = profiles_[id];
      step.segment = id;
      step.mb = mb;
      step.peak_op = p.peak_op;
      CallMoves call{step.after, p.moves};
      if (updates(id)) call.found[MemoryClass::kGradient] += step_copies_;
      step.at_peak = call.found;
      add(step.at_peak, p.at_peak);
      step.gathered = gathered + p.gathered_at_peak.all;
      step.prefetched = p.gathered_at_peak.unread;
      for (const auto& [root, op] : p.first_reads) {
        if (std::erase(unread, root) > 0 && op > p.peak_op) step.prefetched += bytes_[root];
      }
      for (const ValueId root : unread) step.prefetched += bytes_[root];
      unread.insert(unread.end(), p.unread.begin(), p.unread.end());
      gathered += p.gathered_net;
      add(step.after, p.net);
      visit(step, call);
    };
    for (const Call& call : list.calls) {
      run(call.segment, call.mb);
      for (const auto& [at, inner] : call.inside) run(inner, {-1, -1});
    }
  }

  MemoryPeak count(const RankClass& list) {
    MemoryParts best{};
    MemoryPeak peak;
    Bytes without_copies = 0;  // the largest total but for what the update adds
    std::string instant;
    follow(list, [&](const MemoryStep& step, const CallMoves&) {
      const Bytes total = sum(step.at_peak);
      without_copies = std::max(without_copies, total - (updates(step.segment) ? step_copies_ : 0));
      if (step.segment == kNoIndex) {
        best = step.after;
        instant = "start of the step";
      } else if (total > sum(best)) {
        best = step.at_peak;
        peak.gathered_parameters = step.gathered;
        peak.prefetched_parameters = step.prefetched;
        instant = op_place(program_, step.segment, step.mb, step.peak_op);
      }
    });
    peak.total = sum(best);
    peak.parameters = best[MemoryClass::kParameter];
    peak.gradients = best[MemoryClass::kGradient];
    peak.optimizer_state = best[MemoryClass::kOptimizerState];
    peak.activations = best[MemoryClass::kActivation];
    peak.buffers = best[MemoryClass::kBuffer];
    peak.instant = instant;
    peak.host = host_;
    peak.nvme = nvme_;
    // The copies are as large as weights: blocks that activations have left are too small for them,
    // and the other way round they are not split. So the allocator has room for both.
    peak.cached = fixed_.cached + fixed_.cached_per_parameter * parameters_ + without_copies +
                  step_copies_ - peak.total;
    return peak;
  }

 private:
  const Value& value(ValueId id) const { return program_.values[id]; }

  bool updates(SegmentId id) const {
    return id != kNoIndex && program_.segments[id].phase == Phase::kUpdate;
  }

  /// A storage starts to live in a segment that writes it, or a view of it, before it touches it in
  /// any other way. Several may, where a microbatch runs one of them: B, or I.
  Profile profile(const Segment& segment) {
    Profile p;
    GatheredParameters gathered(*this);
    const SegmentId number = profiles_.next();
    MemoryParts told{};
    const auto tell = [&](std::size_t op, const MemoryParts& bytes) {
      if (detail_ == Detail::kPeaks || bytes == told) return;
      p.moves.push_back({static_cast<std::uint32_t>(op), bytes});
      told = bytes;
    };
    const auto first_touch = [&](const Operand& operand) {
      const ValueId root = root_[operand.value];
      const std::size_t slot = value(root).scope == Scope::kMicrobatch ? operand.slot : 0;
      return std::exchange(touched_by_[slot][root], number) != number;
    };
    const auto born = [&](const Operand& operand) {
      const ValueId root = root_[operand.value];
      const Value& v = value(root);
      if (!first_touch(operand) || !in_arena(v)) return;
      p.net[v.memory] += bytes_[root];
      gathered.take(root);
    };
    for (std::size_t k = 0; k < segment.ops.size(); ++k) {
      const ProgramOp& op = segment.ops[k];
      if (op.kind == OpKind::kFree) {
        for (const Operand& operand : op.reads) {
          const Value& v = value(operand.value);
          first_touch(operand);
          if (in_arena(v)) p.net[v.memory] -= bytes_[operand.value];
          gathered.give(operand.value);
        }
        tell(k, p.net);
        continue;
      }
      for (const Operand& operand : op.reads) {
        const ValueId root = root_[operand.value];
        if (first_touch(operand) && gathered_[root]) p.first_reads.emplace_back(root, k);
        gathered.read(root);
      }
      for (const Operand& operand : op.accumulates) first_touch(operand);
      for (const Operand& operand : op.writes) born(operand);
      const Bytes workspace = fixed_.casts_logits ? loss_workspace(program_, op) : 0;
      MemoryParts within = p.net;
      within[MemoryClass::kActivation] += workspace;
      if (sum(within) > p.peak) {
        p.peak = sum(within);
        p.at_peak = within;
        p.peak_op = k;
        p.gathered_at_peak = gathered.now();
      }
      tell(k, within);
      tell(k, p.net);
    }
    p.gathered_net = gathered.now().all;
    p.unread = gathered.unread();
    return p;
  }

  /// Casts of weights are parameters for a while, too, and nobody gathers them.
  void find_gathered() {
    gathered_.assign(program_.values.size(), false);
    for (const Segment& segment : program_.segments) {
      for (const ProgramOp& op : segment.ops) {
        if (op.kind != OpKind::kAllGather && op.kind != OpKind::kCopyOut) continue;
        const ValueId root = root_[op.writes[0].value];
        const Value& v = value(root);
        if (v.memory == MemoryClass::kParameter && in_arena(v)) gathered_[root] = true;
      }
    }
  }

  /// Gathered parameters alive within a segment beside those that were when it began.
  class GatheredParameters {
   public:
    explicit GatheredParameters(const MemoryCounter& of) : of_(of) {}
    void take(ValueId root) {
      if (!is_gathered(root)) return;
      now_.all += of_.bytes_[root];
      now_.unread += of_.bytes_[root];
      unread_.push_back(root);
    }
    void read(ValueId root) {
      const auto found = std::find(unread_.begin(), unread_.end(), root);
      if (found == unread_.end()) return;
      now_.unread -= of_.bytes_[root];
      unread_.erase(found);
    }
    void give(ValueId root) {
      if (!is_gathered(root)) return;
      read(root);
      now_.all -= of_.bytes_[root];
    }
    const GatheredBytes& now() const { return now_; }
    const std::vector<ValueId>& unread() const { return unread_; }

   private:
    bool is_gathered(ValueId root) const { return of_.gathered_[root]; }
    const MemoryCounter& of_;
    GatheredBytes now_;
    std::vector<ValueId> unread_;
  };

  /// Persistent values and pools of the rank that runs this list, whatever the call; of its
  /// replicas the one that owns most (owners.h). Marks, not sets: a pipeline may have as many lists
  /// as the Program has layers.
  MemoryParts standing(const RankClass& list) {
    ++mark_;
    host_ = nvme_ = 0;
    parameters_ = 0;
    MemoryParts parts{};
    pools_.clear();
    std::map<std::int16_t, MemoryParts> owned;  // persistent, by owner
    std::map<std::int16_t, std::int64_t>
        updated;  // gradients that the update reads, by owner of the weights
    const auto see = [&](const Operand& operand) {
      const ValueId root = root_[operand.value];
      const Value& v = value(root);
      if (v.pool != kNoIndex) {
        if (first(pool_mark_, v.pool)) pools_.push_back(v.pool);
        Bytes& slot = slot_[v.pool];
        slot = std::max(slot, bytes_[root]);
      }
      if (v.scope != Scope::kPersistent || !first(value_mark_, root)) return;
      if (v.space != Space::kDevice) {
        (v.space == Space::kHost ? host_ : nvme_) += bytes_[root];
        return;
      }
      (v.owner >= 0 ? owned[v.owner] : parts)[v.memory] += bytes_[root];
      if (v.memory == MemoryClass::kParameter) parameters_ += bytes_[root] / size_in_bytes(v.dtype);
    };
    const auto see_segment = [&](SegmentId id) {
      if (!first(segment_mark_, id)) return;
      for (const ProgramOp& op : program_.segments[id].ops) {
        for (const Operand& operand : op.reads) see(operand);
        for (const Operand& operand : op.writes) see(operand);
        for (const Operand& operand : op.accumulates) see(operand);
        const UpdatedWeights one = updated_by(program_, op);
        if (one.elements > 0) updated[one.owner] += one.elements;
      }
    };
    for (const Call& call : list.calls) {
      see_segment(call.segment);
      for (const auto& [at, inner] : call.inside) see_segment(inner);
    }
    const auto fullest = std::max_element(
        owned.begin(), owned.end(),
        [](const auto& a, const auto& b) { return sum(a.second) < sum(b.second); });
    if (fullest != owned.end()) add(parts, fullest->second);
    step_copies_ =
        fixed_.step_copy * (updated[-1] + (fullest == owned.end() ? 0 : updated[fullest->first]));
    for (const PoolId pool : pools_) {
      Bytes& slot = slot_[pool];
      const Pool& of = program_.pools[pool];
      const Bytes bytes = of.buffer > 0 ? of.buffer : slot * of.slots;
      (of.space == Space::kHost ? host_ : parts[MemoryClass::kBuffer]) += bytes;
      slot = 0;
    }
    return parts;
  }

  /// Whether `id` has no mark of this list yet; it has one afterwards.
  template <typename Id>
  bool first(Indexed<Id, std::int32_t>& marks, Id id) const {
    return std::exchange(marks[id], mark_) != mark_;
  }

  const Program& program_;
  const FixedMemory& fixed_;
  Detail detail_;
  Indexed<ValueId, ValueId> root_;  // its storage
  Indexed<ValueId, Bytes> bytes_;
  Indexed<ValueId, bool> gathered_;  // of storage roots: parameters that are there for a while
  std::array<Indexed<ValueId, SegmentId>, 2>
      touched_by_;  // [slot], of storage roots: the segment that last touched it
  Indexed<SegmentId, Profile> profiles_;
  std::int32_t mark_ = 0;  // of the list being counted
  // Sums over it: what lies on the host and its drives, elements of weights, copies of gradients by
  // the update.
  Bytes host_ = 0, nvme_ = 0;
  std::int64_t parameters_ = 0;
  Bytes step_copies_ = 0;
  // The last list that touched it:
  Indexed<ValueId, std::int32_t> value_mark_;
  Indexed<SegmentId, std::int32_t> segment_mark_;
  Indexed<PoolId, std::int32_t> pool_mark_;
  Indexed<PoolId, Bytes> slot_;  // its largest value on this list; 0 between lists
  std::vector<PoolId> pools_;    // that this list touches
};

}  // namespace

Bytes sum(const MemoryParts& parts) {
  Bytes total = 0;
  for (Bytes part : parts) total += part;
  return total;
}

FixedMemory fixed_memory(const SoftwareProfile& software, DType precision) {
  const auto bytes_of = [&](const std::map<DType, DType>& types) -> Bytes {
    const auto found = types.find(precision);
    return found == types.end() ? 0 : size_in_bytes(found->second);
  };
  const auto bytes = [](double gib) { return static_cast<Bytes>(gib * kGiB); };
  FixedMemory fixed;
  fixed.buffers = bytes(software.context_gib);
  fixed.gradients_per_parameter = bytes_of(software.gradient_copies);
  fixed.activation_factor = software.activation_factor;
  fixed.step_copy = bytes_of(software.step_gradient_copies);
  fixed.casts_logits = software.casts_logits;
  fixed.expandable_segments = software.expandable_segments;
  fixed.cached = bytes(software.cached_gib);
  fixed.cached_per_parameter = bytes_of(software.cached_weights);
  return fixed;
}

bool may_fit(const std::vector<MemoryPeak>& peaks, Bytes capacity, double error) {
  Bytes largest = 0;
  for (const MemoryPeak& peak : peaks) largest = std::max(largest, peak.total);
  return std::abs(static_cast<double>(largest - capacity)) <= error * static_cast<double>(capacity);
}

Bytes cached_within(const MemoryPeak& peak, Bytes capacity) {
  return std::clamp<Bytes>(capacity - peak.total, 0, peak.cached);
}

void follow_memory(const Program& program, const FixedMemory& fixed,
                   const std::function<void(std::size_t list, const MemoryStep&)>& visit) {
  MemoryCounter counter(program, fixed, Detail::kPeaks);
  for (std::size_t list = 0; list < program.body.size(); ++list) {
    counter.follow(program.body[list],
                   [&](const MemoryStep& step, const CallMoves&) { visit(list, step); });
  }
}

void follow_memory_moves(
    const Program& program, const FixedMemory& fixed,
    const std::function<void(std::size_t list, const MemoryStep&, const CallMoves&)>& visit) {
  MemoryCounter counter(program, fixed, Detail::kMoves);
  for (std::size_t list = 0; list < program.body.size(); ++list) {
    counter.follow(program.body[list], [&](const MemoryStep& step, const CallMoves& moves) {
      visit(list, step, moves);
    });
  }
}

std::vector<MemoryPeak> memory_peaks(const Program& program, const FixedMemory& fixed) {
  MemoryCounter counter(program, fixed, Detail::kPeaks);
  std::vector<MemoryPeak> peaks;
  for (const RankClass& list : program.body) peaks.push_back(counter.count(list));
  return peaks;
}

}  // namespace trainyard
