#include "engine/exec/channels/lanes.h"

#include <algorithm>
#include <utility>

#include "engine/exec/op_work.h"
#include "engine/program/no_ops.h"
#include "engine/program/rank_places.h"

namespace trainyard {

Lanes find_lanes(const Program& program) {
  Lanes out;
  out.of_op.resize(program.segments.size());
  const auto pipeline_ranks = pipeline_ranks_of_segments(program);
  const auto index_in = []<typename Id, typename Entry>(Indexed<Id, Entry>& list,
                                                        const Entry& entry) {
    const auto it = std::find(list.begin(), list.end(), entry);
    return it != list.end() ? Id(it - list.begin()) : list.add(entry);
  };
  for (const SegmentId s : program.segments.keys()) {
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
      of_op.push_back(index_in(out.messages, message));
    }
  }
  return out;
}

}  // namespace trainyard
