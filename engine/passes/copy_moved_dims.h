// Pass: what a framework copies around collectives of the tensor group. NCCL gathers and scatters
// along the first dim; torch.distributed._functional_collectives puts the pieces of another dim in
// order by a copy behind a gather, and cuts a tensor into pieces by a copy before a reduce-scatter:
//
//   all_gather:tp{dim=1} x -> y       all_gather:tp{dim=1} x -> y.pieces ; transpose y.pieces -> y
//   reduce_scatter:tp{dim=1} x -> y   transpose x -> x.pieces ; reduce_scatter:tp{dim=1} x.pieces
//   -> y
#pragma once

#include <cstdint>

#include "engine/cost/software_profile.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// Which collectives are fused with the product beside them, piece by piece, and need no copy.
enum class FusedMoves : std::uint8_t {
  kNone,
  kAllButSums,  // but for the sum of several products' gradients, which no product makes
  kAll
};
FusedMoves fused_moves(const SoftwareProfile& software);

void copy_moved_dims(TrainingGraph& training, FusedMoves fused);

}  // namespace trainyard
