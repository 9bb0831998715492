// Which way values take between the stages of a graph, and the transfers that this makes.
//
// Data inputs are loaded where they are read. A value that the ranks of a group hold alike may be
// sent as one slice per rank and gathered where it is read (ScatterGather).
#pragma once

#include <cstdint>

#include "engine/base/indexed.h"
#include "engine/partition/stage_partition.h"

namespace trainyard {

struct StageRoutes {
  enum class Way : std::uint8_t {
    kRelayed,  // across every cut between two stages, a copy on each; gradients add up on the way
    kCalled,   // as control comes to the reader, without what returned in between: modules that
               // are called take it along. What a rank has had once it keeps for its later stages.
    kStraight  // from the stage that makes it to the first of each rank that reads it
  } way = Way::kRelayed;
  /// Lives on the rank of the stage before it, so that no transfer is between the two
  /// (turning_stage() in engine/schedule/stage_form.h); -1: none does. kRelayed alone.
  std::int32_t turning_stage = -1;
  Numbered<std::int32_t> rank = {};  // [stage]; kCalled and kStraight alone
};

/// `graph` with a stage for each op, and what connects them.
StagedGraph cut_into_stages(Graph graph, const Indexed<OpId, std::int32_t>& stage_of_op,
                            int num_stages, const ScatterGather& scatter,
                            const StageRoutes& routes);

}  // namespace trainyard
