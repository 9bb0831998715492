// Pass: a forward and a backward that a schedule runs together -> one segment of two microbatches,
// "0F+7B(m,n)", in which the communication of the one hides behind the compute of the other.
//
// Both lists of ops are cut behind their collectives and the pieces are put in one order, each list
// at the same share of its pieces: while the backward's gradient is reduced, the forward of the
// other microbatch computes, and the reverse. What frees a collective's operands stays with the
// piece behind it, for a free waits. Without collectives there is one piece of each, and nothing to
// hide. DeepSeek-AI, DualPipe; PyTorch's OVERLAP_F_B.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// A forward on one stage and a backward on another, or the same, of the same rank; of microbatches
/// of these sizes (ProgramDraft::size_of).
struct StagePair {
  std::int32_t forward = 0, backward = 0;
  std::size_t forward_size = 0, backward_size = 0;
  friend auto operator<=>(const StagePair&, const StagePair&) = default;
};

/// Those that `schedule` runs together, each once, ascending.
/// `size_of`: as ProgramDraft's.
std::vector<StagePair> stage_pairs(const PipelineSchedule& schedule,
                                   const Numbered<std::size_t>& size_of);

/// Adds to the draft a segment for each pair, of every backward that the stage has.
void add_pair_segments(ProgramDraft& draft, const std::vector<StagePair>& pairs);

}  // namespace trainyard
