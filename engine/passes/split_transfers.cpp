#include "engine/passes/split_transfers.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

class TransferSplitter {
 public:
  TransferSplitter(ProgramDraft& draft, const ReplicaClasses& replicas)
      : draft_(draft),
        program_(draft.program),
        replicas_(replicas),
        of_size_(std::move(draft.stages)) {}

  void run(const std::vector<std::int64_t>& sizes) {
    draft_.classes.clear();
    draft_.stages.clear();
    program_.transfers.clear();  // those of whole tensors
    for (const ReplicaClass& one : replicas_.classes) {
      DraftClass& made =
          draft_.classes.emplace_back(DraftClass{one.rank, one.replicas, {}, {}, one.norm});
      for (std::size_t size = 0; size < one.sequences.size(); ++size) {
        const auto local = std::find(sizes.begin(), sizes.end(), one.sequences[size]);
        check(local != sizes.end(), "segments for every number of sequences");
        made.variants.push_back(draft_.stages.size());
        made.local.push_back(static_cast<std::size_t>(local - sizes.begin()));
        draft_.stages.push_back(variant(one, size, of_size_[made.local.back()]));
      }
    }
  }

 private:
  /// What a replica of the class does with a microbatch of one size.
  Numbered<StageSegments> variant(const ReplicaClass& one, std::size_t size,
                                  const Numbered<StageSegments>& whole) {
    Numbered<StageSegments> out = whole;
    for (const std::int64_t stage : out.keys()) {
      for (const bool forward : {true, false}) {
        auto& sends = forward ? out[stage].sends_forward : out[stage].sends_backward;
        for (StageTransfer& transfer : sends)
          split(transfer.direct, stage, forward ? stage + 1 : stage - 1, one, size);
      }
    }
    return out;
  }

  /// Leaves of a transfer what ranks of the class do.
  void split(WaySegments& way, std::int64_t from, std::int64_t to, const ReplicaClass& one,
             std::size_t size) {
    const WaySegments whole = std::exchange(way, {});
    const std::int64_t boundary = std::min(from, to);
    const auto& pieces = one.pieces[boundary];
    if (draft_.forms[from].rank == one.rank) {
      way.free = whole.free;
      way.send = with_ops(whole.send, [&](const ProgramOp& op, std::vector<ProgramOp>& out) {
        const bool rows = has_sequences(op.reads[0].value);
        for (const ReplicaPiece& piece : pieces[size]) {
          if (!rows && !piece.leads) continue;
          ProgramOp& part = out.emplace_back(op);
          if (rows) part.reads[0].value = view(op.reads[0].value, piece.within, ".rows");
          part.transfer = transfer(op, pairs(boundary, size, piece.turn, from < to));
        }
      });
    }
    if (draft_.forms[to].rank != one.rank) return;
    std::vector<ProgramOp> behind;
    way.receive = with_ops(whole.receive, [&](const ProgramOp& op, std::vector<ProgramOp>& out) {
      const bool rows = has_sequences(op.writes[0].value);
      std::vector<ValueId> received;
      for (const ReplicaPiece& piece : pieces[size]) {
        if (!rows && !piece.leads) continue;
        ProgramOp& part = out.emplace_back(op);
        part.transfer = transfer(op, pairs(boundary, size, piece.turn, from > to));
        if (rows) part.writes[0].value = view(op.writes[0].value, piece.within, ".received");
        received.push_back(part.writes[0].value);
      }
      if (rows) {
        behind.push_back(kernel(OpKind::kJoin, op, received, op.writes[0].value));
      } else if (received.empty()) {
        behind.push_back(kernel(OpKind::kZero, op, {}, op.writes[0].value));
      } else if (received.size() > 1) {
        // Each into a value of its own.
        for (std::size_t i = 0; i < received.size(); ++i) {
          ProgramOp& part = out[out.size() - received.size() + i];
          received[i] = part.writes[0].value = summand(op.writes[0].value, i);
        }
        add_up(op, received, behind);
      }
    });
    if (behind.empty()) return;
    Segment join = program_.segments[way.receive];
    join.name = join.name.replace(join.name.find("RECV"), 4, "JOIN");
    join.ops = std::move(behind);
    way.take = program_.segments.add(std::move(join));
  }

  /// Whether its first dim is the sequences of the rank; else it is alike on all replicas.
  bool has_sequences(ValueId id) const {
    const TensorSpec spec = spec_of(program_, program_.values[id]);
    const Axes data = data_axes(program_.mesh);
    return !spec.dims.empty() && spec.dims[0].parts[0].axes == data;
  }

  static ProgramOp kernel(OpKind kind, const ProgramOp& of, const std::vector<ValueId>& reads,
                          ValueId written) {
    ProgramOp op;
    op.kind = kind;
    op.module = of.module;
    for (const ValueId read : reads) op.reads.push_back({read, 0});
    op.writes.push_back({written, 0});
    return op;
  }

  void add_up(const ProgramOp& of, const std::vector<ValueId>& parts, std::vector<ProgramOp>& out) {
    ProgramOp free;
    free.kind = OpKind::kFree;
    for (const ValueId part : parts) free.reads.push_back({part, 0});
    ValueId sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) {
      ValueId next = of.writes[0].value;
      if (i + 1 < parts.size()) {
        next = partial_sum(next, i);
        free.reads.push_back({next, 0});
      }
      out.push_back(kernel(OpKind::kAdd, of, {sum, parts[i]}, next));
      sum = next;
    }
    out.push_back(std::move(free));
  }

  /// A value like `whole`, for one of several gradients that it is the sum of.
  ValueId summand(ValueId whole, std::size_t number) {
    const auto [known, fresh] = summands_.try_emplace({whole, number}, kNoIndex);
    if (!fresh) return known->second;
    Value part = program_.values[whole];
    part.name += ".summand" + std::to_string(number);
    part.pool = program_.pools.add({"recv." + part.name, 0, Space::kDevice});
    return known->second = program_.values.add(std::move(part));
  }

  /// A value like `whole`, for the sum of several of its summands, not of all. Replicas of other
  /// classes may have more summands of as many sequences.
  ValueId partial_sum(ValueId whole, std::size_t number) {
    const auto [known, fresh] = partial_sums_.try_emplace({whole, number}, kNoIndex);
    if (!fresh) return known->second;
    Value part = program_.values[whole];
    part.name += ".partial" + std::to_string(number);
    part.scope = Scope::kLocal;
    part.pool = kNoIndex;
    return known->second = program_.values.add(std::move(part));
  }

  /// Who meets whom in a turn, the ranks of this end first; `earlier`: this is the end of the
  /// earlier stage.
  ReplicaPairs pairs(std::int64_t boundary, std::size_t size, std::size_t turn,
                     bool earlier) const {
    ReplicaPairs out = replicas_.turns[boundary][size][turn];
    if (earlier) return out;
    for (auto& [own, peer] : out) std::swap(own, peer);
    std::sort(out.begin(), out.end());
    return out;
  }

  TransferId transfer(const ProgramOp& whole, const ReplicaPairs& pairs) {
    return transfer_by(program_, offsets_[whole.transfer], pairs);
  }

  /// A segment with other ops: the first time in its place, then beside it.
  template <typename AddOps>
  SegmentId with_ops(SegmentId whole, const AddOps& add) {
    const auto [known, fresh] = whole_.try_emplace(whole, program_.segments[whole]);
    Segment made = known->second.segment;
    std::vector<ProgramOp> ops;
    for (const ProgramOp& op : made.ops) add(op, ops);
    made.ops = std::move(ops);
    if (++known->second.uses > 1) {
      made.name += "." + letters_of_form(known->second.uses);
      return program_.segments.add(std::move(made));
    }
    program_.segments[whole] = std::move(made);
    return whole;
  }

  /// Some of a value's sequences, which are its first dim. What is received and sent on may be cut
  /// otherwise behind than before, so what is written is another view than what is read.
  ValueId view(ValueId whole, const SequenceRange& sequences, const char* how) {
    const auto [known, fresh] =
        views_.try_emplace({whole, how, sequences.begin, sequences.end}, kNoIndex);
    if (!fresh) return known->second;
    Value part = program_.values[whole];
    part.name += how + std::to_string(sequences.begin) + "-" + std::to_string(sequences.end);
    const std::int64_t each = num_elements(part.dims) / part.dims[0].expected;
    part.dims[0] = {sequences.size(), sequences.size(), -1};
    part.alias = Alias{whole, sequences.begin * each, kNoIndex};
    return known->second = program_.values.add(std::move(part));
  }

  struct Whole {
    Segment segment;
    int uses = 0;
    Whole(Segment of) : segment(std::move(of)) {}  // NOLINT: made in place
  };

  ProgramDraft& draft_;
  Program& program_;
  const ReplicaClasses& replicas_;
  const std::vector<Numbered<StageSegments>> of_size_;  // [number of sequences]
  const Indexed<TransferId, std::int32_t> offsets_ = offsets_of(program_);
  std::map<SegmentId, Whole> whole_;  // segments of whole tensors
  std::map<std::tuple<ValueId, std::string, std::int64_t, std::int64_t>, ValueId> views_;
  std::map<std::pair<ValueId, std::size_t>, ValueId> summands_, partial_sums_;

  static Indexed<TransferId, std::int32_t> offsets_of(const Program& program) {
    Indexed<TransferId, std::int32_t> out;
    for (const Transfer& transfer : program.transfers) out.push_back(transfer.offset);
    return out;
  }
};

}  // namespace

std::string letters_of_form(int number) {
  std::string text;
  for (int left = number - 1; left >= 0; left = left / 26 - 1)
    text.insert(text.begin(), static_cast<char>('a' + left % 26));
  return text;
}

std::optional<Infeasible> split_transfers(ProgramDraft& draft, const ReplicaClasses& replicas,
                                          const std::vector<std::int64_t>& sizes) {
  std::size_t most = 0;  // turns of a boundary
  for (const auto& boundary : replicas.turns) {
    for (const BoundaryTurns& turns : boundary) most = std::max(most, turns.size());
  }
  const auto refused = [&](std::size_t transfers) {
    return Infeasible{"replicas send to up to " + std::to_string(most) +
                          " others each, one behind the other: " + std::to_string(transfers) +
                          " kinds of transfers, of which this version has at most " +
                          std::to_string(kMostTransfers),
                      "partition.replicas"};
  };
  if (2 * most > kMostTransfers) return refused(2 * most);
  TransferSplitter(draft, replicas).run(sizes);
  if (const auto made = draft.program.transfers.size(); made > kMostTransfers) return refused(made);
  return std::nullopt;
}

}  // namespace trainyard
