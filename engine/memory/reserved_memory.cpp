#include "engine/memory/reserved_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/held_values.h"

namespace trainyard {

namespace {

constexpr int kMostSteps = 4;
constexpr std::uint8_t kCompute = 0, kGathers = 1, kReductions = 2;  // streams of the allocator

class Replay {
 public:
  Replay(const Program& program, const RankClass& list, const FixedMemory& fixed, Bytes capacity)
      : program_(program),
        list_(list),
        fixed_(fixed),
        allocator_(capacity, fixed.expandable_segments) {
    of_segment_.resize(program.segments.size());
    known_.resize(program.segments.size(), false);
    slot_.resize(program.pools.size(), 0);
  }

  Bytes run() {
    take_standing();
    Bytes before = -1;
    for (int step = 0; step < kMostSteps && allocator_.most_reserved() != before; ++step) {
      before = allocator_.most_reserved();
      for (const Call& call : list_.calls) {
        run_segment(call.segment, call.mb);
        for (const auto& [at, inner] : call.inside) run_segment(inner, {-1, -1});
      }
    }
    return allocator_.most_reserved();
  }

 private:
  using BlockId = CachingAllocator::BlockId;
  /// A storage that a segment takes or gives back.
  struct Event {
    ValueId root = kNoIndex;
    std::uint8_t slot = 0;
    std::uint8_t stream = kCompute;
    bool frees = false;
    LossCopies loss = {};  // that live while it is taken
  };

  const Value& value(ValueId id) const { return program_.values[id]; }

  Bytes bytes_of(ValueId root) const { return held_bytes(value(root), fixed_); }

  static std::uint8_t stream_of(const ProgramOp& op, const Value& v) {
    const bool gathers = op.kind == OpKind::kAllGather && v.memory == MemoryClass::kParameter;
    const bool scatters = op.kind == OpKind::kReduceScatter && v.memory == MemoryClass::kGradient;
    return gathers ? kGathers : scatters ? kReductions : kCompute;
  }

  const std::vector<Event>& events_of(SegmentId id) {
    std::vector<Event>& events = of_segment_[id];
    if (known_[id]) return events;
    known_[id] = true;
    std::set<std::pair<ValueId, int>> touched;
    const auto first_touch = [&](const Operand& operand) {
      const ValueId root = storage_root(program_, operand.value);
      const int slot = value(root).scope == Scope::kMicrobatch ? operand.slot : 0;
      return touched.emplace(root, slot).second;
    };
    for (const ProgramOp& op : program_.segments[id].ops) {
      if (op.kind == OpKind::kFree) {
        for (const Operand& operand : op.reads) {
          first_touch(operand);
          if (in_arena(value(operand.value)))
            events.push_back({operand.value, operand.slot, kCompute, true, {}});
        }
        continue;
      }
      for (const Operand& operand : op.reads) {
        first_touch(operand);
        if (op.kind == OpKind::kCopyOut) copied_out_.insert(operand.value);
      }
      for (const Operand& operand : op.accumulates) first_touch(operand);
      LossCopies loss = fixed_.casts_logits ? loss_copies(program_, op) : LossCopies();
      for (const Operand& operand : op.writes) {
        const ValueId root = storage_root(program_, operand.value);
        if (!first_touch(operand) || !in_arena(value(root))) continue;
        events.push_back({root, operand.slot, stream_of(op, value(root)), false,
                          std::exchange(loss, LossCopies())});
      }
    }
    return events;
  }

  /// In the order in which PyTorch takes and frees them.
  BlockId take_beside(const LossCopies& loss, Bytes bytes) {
    std::vector<BlockId> copies;
    for (int k = 0; k < loss.copies(); ++k)
      copies.push_back(allocator_.allocate(loss.bytes, kCompute));
    if (loss.forward) {
      if (loss.split) free_last(copies);  // the exponentials are summed up
    } else {
      if (loss.split) {
        // Gradient, exponentials, their sum; with the loss' gradient it is a copy again.
        allocator_.free(copies[1]);
        copies[1] = allocator_.allocate(loss.bytes, kCompute);
        free_last(copies);
      }
      allocator_.free(copies.front());
      copies.erase(copies.begin());
    }
    const BlockId taken = allocator_.allocate(bytes, kCompute);
    while (!copies.empty()) free_last(copies);
    return taken;
  }

  void free_last(std::vector<BlockId>& copies) {
    allocator_.free(copies.back());
    copies.pop_back();
  }

  BlockId take(const Event& event) {
    const Bytes bytes = bytes_of(event.root);
    if (event.loss.bytes > 0) return take_beside(event.loss, bytes);
    return allocator_.allocate(bytes, event.stream);
  }

  /// A buffer that a unit has been copied out of lives until the next one has been, as under FSDP2.
  void give(ValueId root, BlockId block) {
    if (copied_out_.contains(root)) std::swap(gathered_, block);
    if (block != kNoIndex) allocator_.free(block);
  }

  void run_segment(SegmentId id, const std::array<Microbatch, 2>& mb) {
    const bool updates = program_.segments[id].phase == Phase::kUpdate;
    if (updates) take_state();
    const Bytes copies = updates ? fixed_.step_copy * updated_in(program_.segments[id]) : 0;
    const BlockId copy = copies > 0 ? allocator_.allocate(copies, kCompute) : BlockId();
    for (const Event& event : events_of(id)) {
      const bool of_microbatch = value(event.root).scope == Scope::kMicrobatch;
      const std::pair<ValueId, Microbatch> key(event.root, of_microbatch ? mb[event.slot] : -1);
      if (event.frees) {
        const auto found = alive_.find(key);
        if (found == alive_.end()) continue;
        give(event.root, found->second);
        alive_.erase(found);
      } else if (!alive_.contains(key)) {
        alive_.emplace(key, take(event));
      }
    }
    if (copies > 0) allocator_.free(copy);
  }

  bool is_here(std::int16_t owner) const { return owner < 0 || owner == owner_; }

  /// Elements of the gradients that this rank updates by in a segment.
  std::int64_t updated_in(const Segment& segment) const {
    std::int64_t elements = 0;
    for (const ProgramOp& op : segment.ops) {
      const UpdatedWeights one = updated_by(program_, op);
      if (is_here(one.owner)) elements += one.elements;
    }
    return elements;
  }

  /// Storages on the device that last, in the order in which the list touches them, and the
  /// largest value of each pool.
  void find_standing() {
    std::map<std::int16_t, Bytes> owned;
    Indexed<ValueId, bool> seen(program_.values.size(), false);
    Indexed<SegmentId, bool> seen_segment(program_.segments.size(), false);
    const auto see = [&](const Operand& operand) {
      const ValueId root = storage_root(program_, operand.value);
      const Value& v = value(root);
      if (v.pool != kNoIndex) slot_[v.pool] = std::max(slot_[v.pool], bytes_of(root));
      const bool lasts = v.scope == Scope::kPersistent && v.space == Space::kDevice;
      if (!lasts || seen[root]) return;
      seen[root] = true;
      standing_.push_back(root);
      if (v.owner >= 0) owned[v.owner] += bytes_of(root);
    };
    const auto see_segment = [&](SegmentId id) {
      if (seen_segment[id]) return;
      seen_segment[id] = true;
      for (const ProgramOp& op : program_.segments[id].ops) {
        for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
          for (const Operand& operand : *operands) see(operand);
        }
      }
    };
    for (const Call& call : list_.calls) {
      see_segment(call.segment);
      for (const auto& [at, inner] : call.inside) see_segment(inner);
    }
    for (const auto& [owner, bytes] : owned) {
      if (owner_ < 0 || bytes > owned[owner_]) owner_ = owner;
    }
  }

  /// The optimizer's state waits for its update.
  void take_standing() {
    find_standing();
    std::int64_t parameters = 0;
    std::vector<BlockId> first;  // of weights, before they were copied into their buffer
    for (const ValueId root : standing_) {
      const Value& v = value(root);
      if (!is_here(v.owner)) continue;
      if (v.memory == MemoryClass::kOptimizerState) {
        state_.push_back(root);
        continue;
      }
      allocator_.allocate(bytes_of(root), kCompute);
      if (v.memory != MemoryClass::kParameter) continue;
      const std::int64_t elements = bytes_of(root) / size_in_bytes(v.dtype);
      parameters += elements;
      if (fixed_.cached_per_parameter > 0)
        first.push_back(allocator_.allocate(fixed_.cached_per_parameter * elements, kCompute));
    }
    for (const PoolId pool : program_.pools.keys()) {
      const Pool& of = program_.pools[pool];
      if (slot_[pool] == 0 || of.space == Space::kHost) continue;
      if (of.buffer > 0) {
        allocator_.allocate(of.buffer, kCompute);
      } else {
        for (int k = 0; k < of.slots; ++k) allocator_.allocate(slot_[pool], kCompute);
      }
    }
    const Bytes copies = fixed_.gradients_per_parameter * parameters;
    if (copies > 0) allocator_.allocate(copies, kCompute);
    for (const BlockId block : first) allocator_.free(block);
  }

  void take_state() {
    for (const ValueId root : state_) allocator_.allocate(bytes_of(root), kCompute);
    state_.clear();
  }

  const Program& program_;
  const RankClass& list_;
  const FixedMemory& fixed_;
  CachingAllocator allocator_;
  Indexed<SegmentId, std::vector<Event>> of_segment_;
  Indexed<SegmentId, bool> known_;
  std::vector<ValueId> standing_;
  Indexed<PoolId, Bytes> slot_;
  std::int16_t owner_ = -1;     // of the rank that owns most (owners.h)
  std::vector<ValueId> state_;  // of the optimizer, before the first update
  std::map<std::pair<ValueId, Microbatch>, BlockId> alive_;
  std::set<ValueId> copied_out_;  // what units are gathered into, and copied out of
  BlockId gathered_ = kNoIndex;   // the last of these that a unit was copied out of
};

}  // namespace

Bytes reserved_memory(const Program& program, const RankClass& list, const FixedMemory& fixed,
                      Bytes capacity) {
  return Replay(program, list, fixed, capacity).run();
}

void add_held(const Program& program, const FixedMemory& fixed, Bytes capacity,
              std::vector<MemoryPeak>& peaks) {
  std::size_t fullest = 0;
  for (std::size_t k = 0; k < peaks.size(); ++k) {
    if (peaks[k].total > peaks[fullest].total) fullest = k;
  }
  if (peaks.empty()) return;
  MemoryPeak& peak = peaks[fullest];
  const Bytes reserved =
      reserved_memory(program, program.body[fullest], fixed, capacity - fixed.buffers);
  peak.cached = std::max(peak.cached, reserved + fixed.buffers - peak.total);
}

}  // namespace trainyard
