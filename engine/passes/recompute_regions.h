// Which forward instructions are recomputed together, from what is kept in front of them.
//
// [Note: by op.] torchtitan's selective checkpointing "op" keeps, of each layer, what flash
// attention, every second matrix product and reductions over the tensor group wrote, and computes
// the rest again (torchtitan models/llama3/infra/parallelize.py, _apply_ac_to_transformer_block).
// It counts products as PyTorch has them: q, k and v, gate and up are several. Here such a product
// is one op, which can be kept in whole only: of its rows that are kept there it is kept in the
// same share of the layers (half of gate and up: in every second layer), so that memory and work of
// a stage are those of the parts.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/passes/differentiate.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Indices into TrainingGraph::forward, ascending.
struct RecomputeRegion {
  std::vector<std::size_t> ops;        // computed again
  std::vector<std::size_t> kept = {};  // of the same checkpoint: not computed again, but their
                                       // backward reads what is
};

/// Gathers of sequence parallelism whose gradients arrive as partial sums. What is cast into 8 bits
/// of a gathered tensor is cast again, too.
std::vector<RecomputeRegion> sequence_gathers(const TrainingGraph& training);

/// Layers or sublayers of each stage that could be recomputed, [stage].
Numbered<int> num_units(const TrainingGraph& training, RecomputeConfig::Unit unit);

/// What `config` recomputes; what their ops pass on to others is kept. `kept`: [stage], the share
/// of its units that a stage keeps; 1: nothing is recomputed there.
std::vector<RecomputeRegion> recomputed_regions(const TrainingGraph& training,
                                                const RecomputeConfig& config,
                                                const Numbered<double>& kept);

/// The ops between the qkv projection and the output projection, of each layer and stage; none with
/// flash attention, which keeps nothing of them.
std::vector<RecomputeRegion> attention_cores(const TrainingGraph& training);

/// Norms of recompute.modules, each by itself: what they wrote is not kept for anybody.
std::vector<RecomputeRegion> discarded_norms(const TrainingGraph& training,
                                             const RecomputeConfig& config,
                                             const Numbered<double>& kept);

/// core-attn or layernorm: an entry of recompute.modules that is no pattern of module paths.
bool is_word_of_modules(std::string_view entry);

}  // namespace trainyard
