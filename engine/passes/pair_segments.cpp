#include "engine/passes/pair_segments.h"

#include <array>
#include <utility>

#include "engine/base/sort_unique.h"

namespace trainyard {

namespace {

/// One of the two lists of ops, in pieces.
struct Pieces {
  std::vector<std::size_t> ends;  // ascending: the op behind each piece
  std::size_t next = 0;           // piece

  bool left() const { return next < ends.size(); }
  std::size_t begin() const { return next == 0 ? 0 : ends[next - 1]; }
  std::size_t end() const { return ends[next]; }
};

Pieces pieces_of(const Segment& segment) {
  Pieces pieces;
  for (std::size_t k = 0; k < segment.ops.size(); ++k) {
    if (is_collective(segment.ops[k].kind) || k + 1 == segment.ops.size()) {
      pieces.ends.push_back(k + 1);
    }
  }
  return pieces;
}

class PairedSegment {
 public:
  PairedSegment(const Program& program, const Segment& forward, const Segment& backward)
      : program_(program),
        segments_{&forward, &backward} {
    for (std::size_t s : {0U, 1U}) {
      pieces_[s] = pieces_of(*segments_[s]);
      places_[s].resize(segments_[s]->ops.size());
    }
  }

  Segment make() {
    Segment out;
    out.name = segments_[0]->name + "+" + segments_[1]->name;
    out.stage = segments_[0]->stage;
    out.phase = Phase::kBackward;
    out.slots = 2;
    while (pieces_[0].left() || pieces_[1].left()) {
      const std::size_t s = forward_is_next() ? 0 : 1;
      for (std::size_t k = pieces_[s].begin(); k < pieces_[s].end(); ++k) {
        places_[s][k] = static_cast<std::uint32_t>(out.ops.size());
        out.ops.push_back(op_of(s, k));
      }
      ++pieces_[s].next;
    }
    return out;
  }

 private:
  /// Whether the forward has come less far than the backward, or as far.
  bool forward_is_next() const {
    const auto& [forward, backward] = pieces_;
    if (!forward.left() || !backward.left()) return forward.left();
    return forward.next * backward.ends.size() <= backward.next * forward.ends.size();
  }

  ProgramOp op_of(std::size_t slot, std::size_t k) const {
    ProgramOp op = segments_[slot]->ops[k];
    for (auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      for (Operand& operand : *operands) set_slot(operand, slot);
    }
    if (op.guard) set_slot(*op.guard, slot);
    for (std::uint32_t& before : op.after) before = places_[slot][before];
    return op;
  }

  void set_slot(Operand& operand, std::size_t slot) const {
    const Scope scope = program_.values[operand.value].scope;
    const bool of_call = scope == Scope::kMicrobatch || scope == Scope::kLocal;
    operand.slot = of_call ? static_cast<std::uint8_t>(slot) : 0;
  }

  const Program& program_;
  std::array<const Segment*, 2> segments_;
  std::array<Pieces, 2> pieces_;
  std::array<std::vector<std::uint32_t>, 2> places_;  // [slot][op]: in the pair
};

}  // namespace

std::vector<StagePair> stage_pairs(const PipelineSchedule& schedule,
                                   const Numbered<std::size_t>& size_of) {
  const auto size = [&](const Action& action) {
    return size_of.empty() ? 0 : size_of[action.microbatch];
  };
  std::vector<StagePair> pairs;
  for (const auto& actions : schedule.actions) {
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      if (!actions[i].with_next) continue;
      pairs.push_back(
          {actions[i].stage, actions[i + 1].stage, size(actions[i]), size(actions[i + 1])});
    }
  }
  sort_unique(pairs);
  return pairs;
}

void add_pair_segments(ProgramDraft& draft, const std::vector<StagePair>& pairs) {
  Indexed<SegmentId, Segment>& segments = draft.program.segments;
  const auto add = [&](SegmentId forward, SegmentId backward) {
    const auto [known, fresh] = draft.pairs.try_emplace({forward, backward}, kNoIndex);
    if (!fresh) return;
    Segment both = PairedSegment(draft.program, segments[forward], segments[backward]).make();
    known->second = segments.add(std::move(both));
  };
  for (const StagePair& pair : pairs) {
    // Each class of replicas has its own numbers of sequences of both.
    for (const DraftClass& of : draft.classes) {
      if (of.rank != draft.forms[pair.forward].rank) continue;
      const auto stage = [&](std::int32_t number, std::size_t size) -> const StageSegments& {
        return draft.stages[of.variants[size]][number];
      };
      const SegmentId forward = stage(pair.forward, pair.forward_size).forward;
      for (const SegmentId backward : stage(pair.backward, pair.backward_size).backward) {
        if (backward != kNoIndex) add(forward, backward);
      }
    }
  }
}

}  // namespace trainyard
