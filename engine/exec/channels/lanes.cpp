#include "engine/exec/channels/lanes.h"

#include <algorithm>
#include <utility>

#include "engine/exec/op_work.h"
#include "engine/graph/op_table.h"
#include "engine/program/no_ops.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// Which values products make and read, segment by segment; of a product in 8 bits also what its
/// operand is cast from.
class ProductValues {
 public:
  explicit ProductValues(const Program& program)
      : program_(program),
        made_(program.values.size(), kNoIndex),
        read_(program.values.size(), kNoIndex) {}

  void look_at(SegmentId s) {
    segment_ = s;
    const auto& ops = program_.segments[s].ops;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const bool product = op_info(op->kind).kernel == KernelClass::kMatmul;
      if (!product && !(op->kind == OpKind::kQuantize && any(op->writes, read_))) continue;
      for (const Operand& read : op->reads) read_[read.value] = s;
      for (const Operand& write : op->writes) {
        if (product) made_[write.value] = s;
      }
    }
  }

  bool beside(const ProgramOp& collective) const {
    return any(collective.reads, made_) || any(collective.writes, read_);
  }

 private:
  bool any(const Operands& operands, const Indexed<ValueId, SegmentId>& of) const {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& it) { return of[it.value] == segment_; });
  }

  const Program& program_;
  SegmentId segment_ = kNoIndex;
  Indexed<ValueId, SegmentId> made_, read_;  // in which segment last
};

}  // namespace

Lanes find_lanes(const Program& program) {
  Lanes out;
  out.of_op.resize(program.segments.size());
  const auto pipeline_ranks = pipeline_ranks_of_segments(program);
  const auto index_in = []<typename Id, typename Entry>(Indexed<Id, Entry>& list,
                                                        const Entry& entry) {
    const auto it = std::find(list.begin(), list.end(), entry);
    return it != list.end() ? Id(it - list.begin()) : list.add(entry);
  };
  ProductValues products(program);
  for (const SegmentId s : program.segments.keys()) {
    products.look_at(s);
    auto& of_op = out.of_op[s];
    of_op.reserve(program.segments[s].ops.size());
    for (const ProgramOp& op : program.segments[s].ops) {
      if (!moves_data(op.kind) || has_no_peers(program, op, pipeline_ranks[s])) {
        of_op.push_back(kNoIndex);
        continue;
      }
      Lane lane;
      lane.stream = transfer_stream(op.stream);
      if (is_transfer(op.kind)) {
        const Transfer& own = program.transfers[op.transfer];
        Transfer transfer = op.kind == OpKind::kSend ? own : reversed(own);
        const std::int32_t size = program.mesh.size(transfer.axis);
        lane.axis = transfer.axis;
        lane.offset = (transfer.offset % size + size) % size;
        lane.pairs = std::move(transfer.pairs);
        lane.by_host = moved_value(program, op).space == Space::kHost;
      } else if (is_collective(op.kind)) {
        lane.group = op.group;
      }
      Message message;
      message.lane = index_in(out.lanes, lane);
      message.kind = op.kind == OpKind::kRecv ? OpKind::kSend : op.kind;
      message.bytes = message_bytes(program, op);
      message.beside_product =
          lane.stream == StreamId::kTp && is_collective(op.kind) && products.beside(op);
      of_op.push_back(index_in(out.messages, message));
    }
  }
  return out;
}

}  // namespace trainyard
