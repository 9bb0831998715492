#include "real/exec/issue_order.h"

#include <algorithm>
#include <deque>

#include "engine/base/error.h"

namespace trainyard {

namespace {

using Place = std::int32_t;  // of an op in the order of issue; -1: none

/// How much of each stream has ended before an op starts, itself included: ops of it.
using Progress = IndexedArray<StreamId, std::uint32_t, kNumStreams>;

struct Storage {
  Place writer = -1;
  IndexedArray<StreamId, Place, kNumStreams>
      readers;  // the latest of each stream since it was written
  bool alive = false;
  Storage() { readers.fill(-1); }
};

class Builder {
 public:
  Builder(const Program& program, const RankClass& list)
      : program_(program),
        list_(list),
        storages_(program.values.size()),
        slots_(program.pools.size()) {
    for (const ValueId id : program.values.keys()) roots_.push_back(storage_root(program, id));
    // Nobody has freed the slots of a pool yet: they are given in order.
    for (const PoolId p : slots_.keys()) {
      slots_[p].assign(position(program.pools[p].slots), Place{-1});
    }
    last_.fill(-1);
  }

  IssueOrder run() {
    std::vector<IndexedArray<StreamId, Place, kNumStreams>>
        ends;  // [call]: the last op of each stream so far
    for (const Call& call : list_.calls) {
      out_.first_op.push_back(static_cast<std::uint32_t>(out_.ops.size()));
      after_call_.clear();
      for (const CallRef& before : call.after) {
        after_call_.insert(after_call_.end(), ends[before.call].begin(), ends[before.call].end());
      }
      const auto first = static_cast<Place>(out_.ops.size());
      segment(call.segment, call.mb, &call);
      ends.emplace_back();
      for (const StreamId s : kAllStreams) ends.back()[s] = last_[s] >= first ? last_[s] : -1;
    }
    out_.first_op.push_back(static_cast<std::uint32_t>(out_.ops.size()));
    number_events();
    return std::move(out_);
  }

 private:
  void segment(SegmentId id, const std::array<Microbatch, 2>& mb, const Call* call) {
    const auto& ops = program_.segments[id].ops;
    std::vector<Place> places;
    const auto inside = [&](std::uint32_t at) {
      if (call == nullptr) return;
      for (const auto& [place, inner] : call->inside) {
        if (place == at) segment(inner, {-1, -1}, nullptr);
      }
    };
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      inside(i);
      before_ = after_call_;
      for (const std::uint32_t earlier : ops[i].after) before_.push_back(places[earlier]);
      places.push_back(issue(id, i, ops[i], mb));
    }
    inside(static_cast<std::uint32_t>(ops.size()));
  }

  /// Issues one op: before_ holds what it waits for beside its operands.
  Place issue(SegmentId segment, std::uint32_t index, const ProgramOp& op,
              const std::array<Microbatch, 2>& mb) {
    const auto place = static_cast<Place>(out_.ops.size());
    const bool frees = op.kind == OpKind::kFree;
    for (const Operand& operand : op.reads) touch(operand, mb, frees);
    if (op.guard) touch(*op.guard, mb, false);
    for (const Operand& operand : op.writes) {
      take_memory(operand, op, mb);
      touch(operand, mb, true);
    }
    for (const Operand& operand : op.accumulates) touch(operand, mb, true);

    out_.ops.push_back({segment, index, mb, -1, 0, 0});
    const StreamId s = op.stream;
    streams_.push_back(op.stream);
    wait_for_streams(place, s);
    last_[s] = place;

    for (const Operand& operand : op.reads) {
      if (!frees) storage(operand, mb).readers[s] = place;
    }
    if (op.guard) storage(*op.guard, mb).readers[s] = place;
    for (const Operands* operands : {&op.writes, &op.accumulates}) {
      for (const Operand& operand : *operands) {
        Storage& written = storage(operand, mb);
        written.writer = place;
        written.readers.fill(-1);
      }
    }
    if (frees) {
      for (const Operand& operand : op.reads) give_memory(operand, mb, place);
    }
    return place;
  }

  void touch(const Operand& operand, const std::array<Microbatch, 2>& mb, bool changes) {
    const Storage& touched = storage(operand, mb);
    before_.push_back(touched.writer);
    if (changes) before_.insert(before_.end(), touched.readers.begin(), touched.readers.end());
  }

  void take_memory(const Operand& operand, const ProgramOp& op,
                   const std::array<Microbatch, 2>& mb) {
    const ValueId root = roots_[operand.value];
    const Value& value = program_.values[root];
    Storage& taken = storage(operand, mb);
    if (taken.alive || value.scope == Scope::kPersistent) return;
    taken = {};
    taken.alive = true;
    if (value.pool != kNoIndex) {
      std::deque<Place>& slots = slots_[value.pool];
      check(!slots.empty(), "a pool has a free slot when the Program takes one");
      before_.push_back(slots.front());
      slots.pop_front();
    } else if (op.stream != StreamId::kMain) {
      before_.push_back(last_free_);
    }
  }

  void give_memory(const Operand& operand, const std::array<Microbatch, 2>& mb, Place place) {
    const ValueId root = roots_[operand.value];
    const Value& value = program_.values[root];
    storage(operand, mb) = {};
    if (value.pool != kNoIndex) {
      slots_[value.pool].push_back(place);
    } else {
      last_free_ = place;
    }
  }

  Storage& storage(const Operand& operand, const std::array<Microbatch, 2>& mb) {
    const ValueId root = roots_[operand.value];
    const bool each = program_.values[root].scope == Scope::kMicrobatch;
    Numbered<Storage>& all = storages_[root];
    if (all.empty()) all.resize(each ? program_.num_microbatches : 1);
    return all[each ? mb[operand.slot] : 0];
  }

  /// Waits for what is in before_ and neither the order of the stream nor another wait implies.
  void wait_for_streams(Place place, StreamId stream) {
    Progress clock = last_[stream] >= 0 ? clocks_[last_[stream]] : Progress{};
    // The later an op was issued, the more it may imply of what was issued before it.
    std::sort(before_.begin(), before_.end(), std::greater<>());
    IssuedOp& issued = out_.ops[place];
    issued.first_wait = static_cast<std::uint32_t>(out_.waits.size());
    for (const Place before : before_) {
      if (before < 0) break;
      const Progress& other = clocks_[before];
      const StreamId its = streams_[before];
      if (clock[its] >= other[its]) continue;
      for (const StreamId s : kAllStreams) clock[s] = std::max(clock[s], other[s]);
      out_.waits.push_back(before);  // its place; number_events() turns it into its event
      ++issued.num_waits;
    }
    ++clock[stream];
    clocks_.push_back(clock);
  }

  void number_events() {
    for (EventId& wait : out_.waits) {
      IssuedOp& waited = out_.ops[wait];
      if (waited.event < 0) waited.event = static_cast<EventId>(out_.num_events++);
      wait = waited.event;
    }
  }

  const Program& program_;
  const RankClass& list_;
  IssueOrder out_;
  Indexed<ValueId, ValueId> roots_;
  Indexed<ValueId, Numbered<Storage>> storages_;  // of roots: [microbatch], or one
  Indexed<PoolId, std::deque<Place>> slots_;  // who freed each free slot, in the order of giving
  Place last_free_ = -1;                      // of arena storage
  IndexedArray<StreamId, Place, kNumStreams> last_{};
  Numbered<StreamId> streams_;  // [place]
  Numbered<Progress> clocks_;   // [place]
  std::vector<Place> before_, after_call_;
};

}  // namespace

IssueOrder issue_order(const Program& program, const RankClass& list) {
  return Builder(program, list).run();
}

}  // namespace trainyard
