#include "engine/passes/transfer_ends.h"

#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"

namespace trainyard {

std::map<TransferEnd, TransferEnd> transfer_ends(const Program& program) {
  const std::int32_t ranks = num_pipeline_ranks(program.mesh);
  // By sender, receiver and the sender's stream.
  using Way = std::tuple<std::int32_t, std::int32_t, StreamId>;
  std::map<Way, std::vector<TransferEnd>> sends, receives;
  const auto look_at = [&](SegmentId id, std::int32_t here) {
    const auto& ops = program.segments[id].ops;
    for (std::uint32_t k = 0; k < ops.size(); ++k) {
      if (!is_transfer(ops[k].kind)) continue;
      const std::int32_t offset = program.transfers[ops[k].transfer].offset % ranks;
      const std::int32_t there = (here + offset + ranks) % ranks;
      const StreamId stream = transfer_stream(ops[k].stream);
      if (ops[k].kind == OpKind::kSend)
        sends[{here, there, stream}].push_back({id, k, here});
      else
        receives[{there, here, stream}].push_back({id, k, here});
    }
  };
  for (const RankClass& list : program.body) {
    const std::int32_t here = pipeline_rank_of(list.ranks, program.mesh);
    for (const Call& call : list.calls) {
      look_at(call.segment, here);
      for (const auto& [before, inside] : call.inside) look_at(inside, here);
    }
  }
  std::map<TransferEnd, TransferEnd> out;
  for (const auto& [way, ends] : sends) {
    const auto& others = receives[way];
    check(ends.size() == others.size(), "as many receives as sends");
    for (std::size_t i = 0; i < ends.size(); ++i) {
      out.emplace(ends[i], others[i]);
      out.emplace(others[i], ends[i]);
    }
  }
  return out;
}

}  // namespace trainyard
