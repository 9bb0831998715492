// Tensor parallelism whose all-reduces are hidden: a microbatch is cut in chunks, and while the
// activations of one are reduced the others compute.
#pragma once

namespace trainyard {

struct SubPipelinedTime {
  double forward = 0;
  double backward = 0;
  double total = 0;
  double sequential = 0;  // without chunks: layers x (3 compute + 2 all_reduce)
};

/// Times of `layers` transformer layers, in the unit of `compute` and `all_reduce`, which are what
/// one layer's forward takes for a whole microbatch. A layer is two blocks (attention, MLP) with an
/// all-reduce each; of two chunks a chunk's block computes a quarter of `compute` (twice that
/// backward) and reduces for a quarter of `all_reduce`. One stream computes, one communicates, both
/// in order: block by block, first chunk to last; a chunk's block needs its all-reduce of the block
/// before. `across_blocks` false: chunks join at the end of each layer. With K layers, m, a and c
/// chunks:
///   forward  = m/2c + (K - 1/2c) max(m, a) + a/2c
///   backward = m/c + (K - 1/2c) max(2m, a) + a/2c
/// Lai et al., Merak (arXiv:2206.04959), section 5.3, of two. Recompute is not in it.
SubPipelinedTime sub_pipelined(int layers, double compute, double all_reduce, bool across_blocks,
                               int chunks = 2);

}  // namespace trainyard
