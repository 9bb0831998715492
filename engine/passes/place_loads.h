// Where the copies back from the host (TrainingGraph::loads) stand in a piece of the backward.
//
// A load is issued `horizon` layers before the one that reads it: at the begin of that layer's
// instructions. "Layers" are the layers of the piece that read something loaded, in the order in
// which the piece runs them; where several are recomputed as one, that one. What is due before the
// piece begins is `ahead` of it: lower() issues it one action of the rank before.
#pragma once

#include <vector>

#include "engine/passes/differentiate.h"

namespace trainyard {

struct PlacedLoads {
  std::vector<const Instruction*> instructions;  // of the piece, with the loads among them
  std::vector<const Instruction*> ahead;
  std::vector<const Instruction*> all;  // loads: those among the instructions, and those ahead
};

/// `piece`: instructions of one segment. Loads that no recomputed instruction of it reads are
/// another piece's.
PlacedLoads place_loads(const TrainingGraph& training, std::vector<const Instruction*> piece,
                        int horizon);

}  // namespace trainyard
