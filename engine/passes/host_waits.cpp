#include "engine/passes/host_waits.h"

#include <algorithm>

namespace trainyard {

namespace {

void wait_for_last_kernel(Segment& segment) {
  const auto last = std::find_if(segment.ops.rbegin(), segment.ops.rend(), [](const ProgramOp& op) {
    return op.stream == StreamId::kMain && op.kind != OpKind::kFree;
  });
  if (last != segment.ops.rend()) last->host_sync = true;
}

}  // namespace

void add_host_waits(ProgramDraft& draft, bool of_transfers) {
  draft.host_waits = of_transfers;
  for (Segment& segment : draft.program.segments) {
    for (ProgramOp& op : segment.ops)
      op.host_sync = op.host_sync || (of_transfers && op.kind == OpKind::kRecv);
  }
  for (const auto& of_size : draft.stages) {
    for (const StageSegments& stage : of_size) {
      for (const SegmentId segment :
           {stage.forward, stage.backward[0], stage.backward[1], stage.input[0], stage.input[1]}) {
        if (segment != kNoIndex) wait_for_last_kernel(draft.program.segments[segment]);
      }
    }
  }
  for (const auto& [parts, pair] : draft.pairs) {
    wait_for_last_kernel(draft.program.segments[pair]);
  }
}

}  // namespace trainyard
