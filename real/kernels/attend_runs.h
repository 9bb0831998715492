// Attention of runs of a sequence to runs of it: queries and keys that lie anywhere, with windows,
// inside documents. One softmax over all keys, whatever comes in how many parts.
#pragma once

#include <optional>

#include "engine/sharding/spec_boxes.h"
#include "real/kernels/attend.h"

namespace trainyard {

/// Queries and keys, and where they are in the sequence.
struct SequenceRuns {
  Projections in;
  IndexRanges queries, keys;
  OpAttrs attrs;  // its mask: causal, attended, documents
};

/// Writes out [B, N, Sq, H] and lse [B, N, Sq]. `so_far`: of other keys, merged with these; without
/// it every query has to see a key.
void attend_runs(const KernelCall& call, const SequenceRuns& runs,
                 const std::optional<Attended>& so_far, const Attended& to,
                 at::ScalarType lse_type);

/// Adds to `gradients` what these keys contribute, of what all keys made: `saved`.
void attend_runs_backward(const KernelCall& call, const SequenceRuns& runs, const at::Tensor& grad,
                          const Attended& saved, const Projections& gradients);

}  // namespace trainyard
